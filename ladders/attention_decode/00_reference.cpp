// Rung 0, the meaning: double precision, one element at a time.
//
// Prediction: a few nanoseconds for a product: conversion, multiply-add, bounds.
// Outcome:    OUT
#include "rung.h"

int main() {
  using namespace plumb;
  return ladder::run_rung("00_reference", kernels::KvFormat::f32, [](const kernels::AttentionArgs& a) { kernels::op<kernels::AttentionArgs>().reference(&a); }, 512);
}
