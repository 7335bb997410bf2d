// SPDX-License-Identifier: Apache-2.0
// activation.cl: how gate and up become one value, in activate.cl and on the way out of kernels that multiply (epilogue.cl).
// Set by the including file or the host:
// ACTIVATION  1        1 2          silu, swiglu_oai
#ifndef ACTIVATION
#define ACTIVATION 1
#endif
#if ACTIVATION == 1
#define STEEPER(F, gate) (gate)
#define FACTOR(F, up) (up)
#else
#define STEEPER(F, gate) ((F)(1.702f) * (gate))
#define FACTOR(F, up) ((up) + (F)(1.0f))
#endif
// gate / (1 + exp(-s)). NVIDIA's quick division is right within 2 ulp by a divisor of 1 to 2, so there exp is of what is not positive: the
// division that rounds correctly branches, which cost a product of 4096 x 24576 x 4096 a quarter of its time on an H200.
#ifdef PTX_SM_80
#define TIMES_SIGMOID(F, SELECT, gate, s) \
  native_divide(SELECT((gate) * exp(-fabs(s)), gate, (s) >= (F)(0.0f)), (F)(1.0f) + exp(-fabs(s)))
#else
#define TIMES_SIGMOID(F, SELECT, gate, s) ((gate) / ((F)(1.0f) + exp(-(s))))
#endif

// limit 0 clamps nothing. Comparisons are such that a NaN passes through.
#define DEFINE_ACTIVATE(NAME, F, SELECT)                                                             \
  static inline F NAME(F gate, F up, float limit) {                                                  \
    if (limit != 0.0f) {                                                                             \
      gate = SELECT(gate, (F)(limit), gate > (F)(limit));                                            \
      up = SELECT(up, (F)(limit), up > (F)(limit));                                                  \
      up = SELECT(up, (F)(-limit), up < (F)(-limit));                                                \
    }                                                                                                \
    const F s = STEEPER(F, gate);                                                                    \
    return TIMES_SIGMOID(F, SELECT, gate, s) * FACTOR(F, up);                                        \
  }
DEFINE_ACTIVATE(activate_4, float4, select)
#define SELECT_ONE(a, b, c) ((c) ? (b) : (a))
DEFINE_ACTIVATE(activate_16, float16, select)
DEFINE_ACTIVATE(activate_1, float, SELECT_ONE)
