// Bank of the CPU: one arena, its regions, and in checked mode the guards between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/bank.h"
#include "device/cpu/arena.h"

namespace plumb::device {

class CpuCore;

class CpuBank final : public Bank {
 public:
  // `first_id`: allocation id of region 0; the others follow. Fills guards and poison when checked.
  // REQUIRES: the arena has plan.total_bytes(checked) bytes.
  CpuBank(std::shared_ptr<CpuCore> core, BankPlan plan, Arena arena, std::uint32_t first_id, bool checked);
  ~CpuBank() override;

  const BankPlan& plan() const override { return plan_; }
  Buffer buffer(std::size_t index) const override;
  bool host_visible() const override { return true; }
  Status verify() const override;
  void poison(std::size_t index) override;

  // Bytes reserved, with alignment and guards.
  std::uint64_t bytes() const { return bytes_; }
  // "bank.region" when `address` lies inside a region; else empty.
  std::string region_at(const void* address) const;
  // The allocation id of that region; 0 outside.
  std::uint32_t id_at(const void* address) const;
  // "bank.region" of an allocation id; else empty.
  std::string region_of(std::uint32_t id) const;
  Arena take_arena() { return std::move(arena_); }

 private:
  // Index of the region that holds the address, or plan().regions.size().
  std::size_t find(const void* address) const;
  std::string name_of(std::size_t index) const { return plan_.name + "." + plan_.regions[index].name; }

  std::shared_ptr<CpuCore> core_;
  BankPlan plan_;
  Arena arena_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t bytes_;
  std::uint32_t first_id_;
  bool checked_;
};

}  // namespace plumb::device
