// SPDX-License-Identifier: Apache-2.0
// parts.cl: tiles of D whose K is made in parts by several work-groups, for kernels whose work-groups stay (gemm_wgmma_f16,
// gemm_wgmma_fp8). With SPLIT_K all tiles are; with SHARE those of a last round that leaves half of the work-groups or more idle.
// They are the first of the list, and a part is the first item of its work-group, so whole tiles follow. Next door: tile.cl.
//
// Nobody waits: a part is stored as f32 in scratch. A work-group that has nothing left to do adds up its share of the tile, in the
// order of k, if all parts are stored by then; else the one that stores the last part does it when it ends. So sums do not depend
// on who comes when. Of each tile in parts there is a word, zero before and after: bit z says that part z is stored, bit 16 + z that
// the work-group of part z has ended. The words lie where forms/forms.h has the counters of parts. A kernel says with
// SHARED_BLOCKS how many K blocks a part has at least with SHARE: below, storing and adding parts costs what sharing saves. With
// LAST_ADDS, where tiles are so small that a second look at the word costs more than adding, a tile is one share and the last part's.
#if defined(PTX_SM_90)
#if SPLIT_K > 1
#define MOST_PARTS SPLIT_K
#define LEAST_BLOCKS 1
#else
#define MOST_PARTS 16
#define LEAST_BLOCKS SHARED_BLOCKS
#endif
#define IN_PARTS (SPLIT_K > 1 || SHARE)
#ifndef LAST_ADDS
#define LAST_ADDS 0
#endif
#define SHARES_OF(parts) (LAST_ADDS ? 1u : (parts))
// Looks at the word before a work-group leaves its share to another: where all tiles are in parts, they end at about the same time.
#define LOOKS (SPLIT_K > 1 ? 8 : 0)

#define ATOMIC_OR(out, p, bits) asm volatile("atom.global.or.b32 %0,[%1],%2;" : "=r"(out) : "l"(p), "r"(bits) : "memory")
#define LOAD_F4_IF(a, b, c, d, p, yes)                                                                       \
  asm volatile("{.reg .pred q; setp.ne.u32 q,%5,0; @q ld.global.cg.v4.f32 {%0,%1,%2,%3},[%4];}"              \
               : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "l"(p), "r"((uint)(yes)) : "memory")
#define LOAD_RELAXED(out, p) asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(out) : "l"(p) : "memory")

/// How many parts each of the `rest` first tiles has, where `rest` is what whole rounds of the work-groups leave over; 1: none has.
/// `steps`: into how many equal steps a tile's K can be cut, of `blocks` K blocks in all.
static inline uint parts_of(uint rest, uint groups, uint blocks, uint steps)
{
  return rest == 0 ? 1 : max(1u, min(min(groups / rest, (uint)MOST_PARTS), min(steps, blocks / LEAST_BLOCKS)));
}

// Adds up, in the order of k, COUNT times four floats of X from scratch: part after part, each OF_PART floats, in which a work-item has
// four floats in each row of 1024; of rows FIRST to END. Loads of four parts are on their way at once.
#define ADD_PARTS(X, COUNT, FROM, OF_PART, FIRST, END, N_OF_PARTS)                                                 \
  do {                                                                                                             \
    UNROLL for (int i_ = 0; i_ < 4 * (COUNT); ++i_) (X)[i_] = 0.0f;                                                \
    _Pragma("unroll 1") for (uint p_ = 0; p_ < (N_OF_PARTS); p_ += 4) {                                            \
      float v_[4][4 * (COUNT)];                                                                                    \
      UNROLL for (int e_ = 0; e_ < 4; ++e_) UNROLL for (int i_ = 0; i_ < (COUNT); ++i_) {                          \
        v_[e_][4 * i_] = v_[e_][4 * i_ + 1] = v_[e_][4 * i_ + 2] = v_[e_][4 * i_ + 3] = 0.0f;                      \
        LOAD_F4_IF(v_[e_][4 * i_], v_[e_][4 * i_ + 1], v_[e_][4 * i_ + 2], v_[e_][4 * i_ + 3],                     \
                   (FROM) + (p_ + e_) * (OF_PART) + ((FIRST) + i_) * 1024u,                                        \
                   p_ + e_ < (N_OF_PARTS) && (FIRST) + i_ < (END));                                                \
      }                                                                                                            \
      UNROLL for (int e_ = 0; e_ < 4; ++e_) UNROLL for (int i_ = 0; i_ < 4 * (COUNT); ++i_) (X)[i_] += v_[e_][i_]; \
    }                                                                                                              \
  } while (0)

/// Part `part` is stored. Returns the word as it is then.
static inline uint note_stored(__global uint *word, uint part)
{
  uint before;
  ATOMIC_OR(before, word, 1u << part);
  return before | 1u << part;
}

/// The work-group of `part` ends; `seen`: what note_stored returned to it. Returns the shares that it must add up, a bit each.
static inline uint shares_to_add(__global uint *word, uint part, uint parts, uint seen)
{
  const uint all = (1u << parts) - 1u, bit = 0x10000u << part;
#if LAST_ADDS
  if ((seen & all) != all) return 0;
  *word = 0;
  return 1;
#endif
  // It stored the last part: what had ended by then could not add up.
  uint mine = (seen & all) == all ? seen >> 16 : 0, now = 0;
  _Pragma("unroll 1") for (int i = 0; i < LOOKS && (now & all) != all; ++i) LOAD_RELAXED(now, word);
  ATOMIC_OR(now, word, bit);
  if ((now & all) == all) mine |= 1u << part;
  if ((now | bit) >> 16 == all) *word = 0;
  return mine;
}

// What a kernel says where it begins. PARTS_MEMORY: what its warps are told, of IN_PARTS only: tiles in parts, parts of each, what
// note_stored returned. TAKE_TILE: this work-group's tile t and K blocks [first, end) of it, of `tiles` tiles for `groups` work-groups;
// whole tiles follow with NEXT_TILE. K is cut at multiples of STEP blocks.
#if IN_PARTS
#define PARTS_MEMORY __local uint share[3];
#define TAKE_TILE(STEP)                                                         \
  uint t = get_group_id(0), first = 0, end = blocks, next = t + groups;         \
  {                                                                             \
    const uint rest = tiles % groups, steps = blocks / (STEP);                  \
    const uint parts = parts_of(rest, groups, blocks, steps);                   \
    if (tid == 0) { share[0] = parts > 1 ? rest : 0; share[1] = parts; }        \
    if (parts > 1) {                                                            \
      const uint part = t / rest;                                               \
      next = rest + t;                                                          \
      if (part < parts) {                                                       \
        t -= part * rest;                                                       \
        first = steps * part / parts * (STEP);                                  \
        end = steps * (part + 1) / parts * (STEP);                              \
      } else {                                                                  \
        t = next;                                                               \
        next += groups;                                                         \
      }                                                                         \
    }                                                                           \
  }
#define NEXT_TILE() (t = next, next += groups, first = 0, end = blocks)
// Of the multiplying warps, which count t by themselves: read again where they are needed, since registers are short.
#define REST (*(volatile __local uint *)share)
#define PARTS (*(volatile __local uint *)(share + 1))
// The word of this work-group's tile, rest_ being REST.
#define COUNTERS 1024  // Of forms/forms.h.
#define WORD ((__global uint *)(sa + sa_at) - COUNTERS + get_group_id(0) % rest_)
// That a part is stored is said when the next tile is done: nobody waits for it, and this work-group not for the memory.
#define PART_IS_TO_NOTE (t == REST + get_group_id(0) && get_group_id(0) < REST * PARTS)
#define AFTER_THIS (t < REST ? REST + get_group_id(0) : t + groups)
#else
#define PARTS_MEMORY
#define TAKE_TILE(STEP)     \
  uint t = get_group_id(0); \
  const uint first = 0, end = blocks;
#define NEXT_TILE() (t += groups)
#define AFTER_THIS (t + groups)
#endif
#endif  // Without what PTX_SM_90 promises this file is empty.
