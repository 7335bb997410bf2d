// SPDX-License-Identifier: Apache-2.0
// product_list.cl: what launches share that make products of a list one after another (fused_products.cl, fused_products_wgmma.cl): the list, as
// fused_products.cpp writes it, in local memory as `products`; codes of A that the work-groups make together; and how a launch ends.
// Set by the including file, which includes ptx.cl and meeting.cl before: MEETERS, the work-items of a work-group that meet.
//
// workspace: FUSED_COUNTERS words of 32 bits; of each product FUSED_PRODUCT_WORDS words of 64 bits; two places of codes and their scales.
// Codes that are made in the launch have one of two places, `made_bytes` each, in turns; what was not made yet has a value that no code has.
// After a product's codes were read, those of the next one are unmade, which the next meeting shows to all.
#define TURN (MEETINGS + 2)      // The counter of products of all launches before,
#define LAUNCHES (MEETINGS + 3)  // and of those launches.
#define UNMADE 0xffffffffu   // No four codes, and no scale.

// Words of a product: five addresses, and pairs of numbers.
#define WORD(p, i) products[(p) * FUSED_PRODUCT_WORDS + (i)]
#define LOW(p, i) ((uint)WORD(p, i))
#define HIGH(p, i) ((uint)(WORD(p, i) >> 32))
#define B_OF(p) ((__global const uchar*)WORD(p, 0))
#define SB_OF(p) ((__global const float*)WORD(p, 1))
#define A_OF(p) ((__global const uchar*)WORD(p, 2))
#define D_OF(p) ((__global uchar*)WORD(p, 3))
#define BIASES_OF(p) ((__global const uchar*)WORD(p, 4))
#define LDA_OF(p) LOW(p, 5)
#define LDD_OF(p) HIGH(p, 5)
#define ROWS_OF(p) LOW(p, 6)
#define N_OF(p) HIGH(p, 6)
#define BLOCKS_OF(p) LOW(p, 7)
#define ALL_BLOCKS_OF(p) HIGH(p, 7)  // Of B's form.
#define UNITS_BEFORE(p) LOW(p, 8)   // Of FUSED_COLUMNS columns, of the products before it, in fours.

#define TABLE ((__global const ulong*)((__global uint*)workspace + FUSED_COUNTERS))
#define MADE (workspace + 4 * FUSED_COUNTERS + 8 * FUSED_MOST_PRODUCTS * FUSED_PRODUCT_WORDS)

// Eight values of a lane, of a group by 128 that a half-warp has, of row ROW of K block KB. Not by the path for read-only data, since a product
// before may have made them.
#define LOAD_GROUP(raw, a, lda, row, kb)           \
  UNROLL for (int j_ = 0; j_ < WORDS; j_ += 4)     \
    LOAD16_IN_ORDER(&(raw)[j_], (a) + ((row) * (lda) + (kb) * 128u + (lane & 15) * 8u + j_ * PER) * (4 / PER));

#if defined(PTX_SM_90)
/// The last work-group to leave makes all ready for the next launch; after a launch that gave up, all codes unmade, and the `zeros` words behind
/// them zero.
static inline void leave(__global uint* counters, __global uchar* made, uint made_bytes, uint zeros, uint count, uint before, uint grid,
                         __local uint* last) {
  const uint tid = get_local_id(0);
  MEETING_BARRIER();
  if (tid == 0) {
    uint left;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0,[%1],1;" : "=r"(left) : "l"(counters + LEFT) : "memory");
    *last = left == grid - 1;
  }
  MEETING_BARRIER();
  if (!*last) return;
  uint gave_up;
  LOAD_ACQUIRED(gave_up, counters + GAVE_UP);
  const uint codes = made_bytes / 2;  // Words of both places.
  for (uint i = tid; gave_up != 0 && i < codes + zeros; i += MEETERS) STORE_SHOWN(made + 4 * i, i < codes ? UNMADE : 0u);
  MEETING_BARRIER();
  for (uint i = tid; i <= GAVE_UP; i += MEETERS) counters[i] = 0;
  if (tid == 0) counters[TURN] = before + count, counters[LAUNCHES] = gave_up != 0 ? 0u : counters[LAUNCHES] + 1;
}
__kernel void note_address(PARAMETERS(NOTE_ADDRESS_LIST)) { words[place] = (ulong)(memory + memory_at); }
#endif
