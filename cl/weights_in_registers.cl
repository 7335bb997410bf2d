// SPDX-License-Identifier: Apache-2.0
// weights_in_registers.cl: a K block of 64 columns times 64 rows by wgmma of f16, of weights that are decoded to registers
// (gemm_wgmma_few_f16.cl, fused_products_wgmma.cl). A work-item has 16 k of each half of the K block, of two columns.
// Set by the including file, which includes ptx.cl before and transposed_d.cl after: HALF_BYTES, the lines of half a K block of rows as f16.
#if defined(PTX_SM_90)
// A work-item's line of each eight, `g`: four lanes beside one another read 64 bytes of a line, and the next four the other half of the banks.
#define LINE_OF(lane) ((lane) >> 3 | ((lane) >> 2 & 1) << 2)
#define TO_PARTNER 8  // In lanes, from a line to the next.
#define DECODE4 JOIN(DECODE4_, B_TYPE)

// A column's codes of a K block, the 16 k of each half that are this work-item's, as parts R of the eight instructions' first operands.
#define DECODE_COLUMN(W, R, FROM)                                                                      \
  do {                                                                                                 \
    uint one_[4], other_[4];                                                                           \
    LOCAL16(one_, FROM);                                                                               \
    LOCAL16(other_, (FROM) ^ 64u);                                                                     \
    UNROLL for (int i_ = 0; i_ < 4; ++i_) {                                                            \
      DECODE4((W)[4 * i_ + (R)], (W)[4 * i_ + 2 + (R)], one_[i_]);                                     \
      DECODE4((W)[16 + 4 * i_ + (R)], (W)[16 + 4 * i_ + 2 + (R)], other_[i_]);                         \
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
