// Encoders of single blocks; quantize.h has the table of them. Each takes the format's elements of one block and writes its bytes.
// REQUIRES: finite values within the format's limit. Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace plumb::format::quantize {

// q4_0, q4_1 and iq4_nl: a scale (and offset) fitted to the block's 32 values, rounded to half precision, then the nearest codes.
void encode_q4_0(const float* values, std::uint8_t* block);
void encode_q4_1(const float* values, std::uint8_t* block);
void encode_iq4_nl(const float* values, std::uint8_t* block);

// mxfp4: the exponent of the OCP rule and its two neighbours are tried, and the one of smallest error is taken. The rule itself
// clips values between 6 and 8 times the scale.
void encode_mxfp4(const float* values, std::uint8_t* block);

// nvfp4: each run of 16 gets, of the scales from an eighth to a quarter of its largest value, the one of smallest squared error.
// REQUIRES: magnitudes of at most 6 x 448, up to rounding; matrix_factor (quantize.h) brings a matrix there.
void encode_nvfp4(const float* values, std::uint8_t* block);

// The K formats: each part's scale (and min) is fitted, the largest of them sets the block's half-precision scale, the parts'
// integer scales are chosen among the nearest by their error, and the block's scales are fitted once more to what was chosen.
void encode_q4_k(const float* values, std::uint8_t* block);
void encode_q5_k(const float* values, std::uint8_t* block);
void encode_q6_k(const float* values, std::uint8_t* block);

}  // namespace plumb::format::quantize
