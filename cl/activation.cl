// SPDX-License-Identifier: Apache-2.0
// activation.cl: how gate and up become one value, in activate.cl and on the way out of kernels that multiply (epilogue.cl).
// Set by the including file or the host:
// ACTIVATION  1        1 2          silu, swiglu_oai
#ifndef ACTIVATION
#define ACTIVATION 1
#endif

// limit 0 clamps nothing. Comparisons are such that a NaN passes through.
#define DEFINE_ACTIVATE(NAME, F, SELECT)                                                             \
  static inline F NAME(F gate, F up, float limit) {                                                  \
    if (limit != 0.0f) {                                                                             \
      gate = SELECT(gate, (F)(limit), gate > (F)(limit));                                            \
      up = SELECT(up, (F)(limit), up > (F)(limit));                                                  \
      up = SELECT(up, (F)(-limit), up < (F)(-limit));                                                \
    }                                                                                                \
    ACTIVATED(F)                                                                                     \
  }
#if ACTIVATION == 1
#define ACTIVATED(F) return gate / ((F)(1.0f) + exp(-gate)) * up;
#else
#define ACTIVATED(F) return gate / ((F)(1.0f) + exp(-((F)(1.702f) * gate))) * (up + (F)(1.0f));
#endif
#define SELECT_ONE(a, b, c) ((c) ? (b) : (a))
DEFINE_ACTIVATE(activate_16, float16, select)
DEFINE_ACTIVATE(activate_1, float, SELECT_ONE)
