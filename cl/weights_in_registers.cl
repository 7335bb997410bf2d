// SPDX-License-Identifier: Apache-2.0
// weights_in_registers.cl: a K block of 64 columns times 64 rows by wgmma of f16, of weights that are decoded to registers
// (gemm_wgmma_few_f16.cl, fused_products_wgmma.cl). A work-item has 16 k of each half of the K block, of two columns.
// Set by the including file, which includes ptx.cl before: HALF_BYTES, the lines of half a K block of rows as f16; g, a work-item's column of eight.
#if defined(PTX_SM_90)
#define DECODE4 JOIN(DECODE4_, B_TYPE)

// A column's codes of a K block, the 16 k of each half that are this work-item's, as parts R of the eight instructions' first operands.
// Of every other column the second half is read first, so that reads of two columns do not meet in a bank.
#define DECODE_COLUMN(W, R, FROM)                                                                      \
  do {                                                                                                 \
    uint one_[4], other_[4];                                                                           \
    LOCAL16(one_, FROM);                                                                               \
    LOCAL16(other_, (FROM) ^ 64u);                                                                     \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) {                                                            \
      const uint first_ = g & 1 ? other_[i_] : one_[i_], second_ = g & 1 ? one_[i_] : other_[i_];      \
      DECODE4((W)[4 * i_ + (R)], (W)[4 * i_ + 2 + (R)], first_);                                       \
      DECODE4((W)[16 + 4 * i_ + (R)], (W)[16 + 4 * i_ + 2 + (R)], second_);                            \
    }                                                                                                  \
  } while (0)
// P: the weights W times the rows that lie AT, of a descriptor's lines.
#define MULTIPLY(P, W, AT)                                                                                          \
  UNROLL for (int i_ = 0; i_ < 8; ++i_) {                                                                           \
    const ulong rows_ = (AT) + (i_ >> 2) * (HALF_BYTES >> 4) + 2 * (i_ & 3);                                        \
    if (i_ == 0) WGMMA_M64N64K16_F16(P, (W)[4 * i_], (W)[4 * i_ + 1], (W)[4 * i_ + 2], (W)[4 * i_ + 3], rows_, 0);  \
    else WGMMA_M64N64K16_F16(P, (W)[4 * i_], (W)[4 * i_ + 1], (W)[4 * i_ + 2], (W)[4 * i_ + 3], rows_, 1);          \
  }
#endif  // Without what PTX_SM_90 promises this file is empty.
