// SPDX-License-Identifier: Apache-2.0
// ptx.cl: instructions of NVIDIA GPUs of compute capability 8.0, 8.9 and 9.0 as macros, by inline assembly. Next door: the kernels that
// need wgmma or mma.sync. What the host sets says what a device has: PTX_SM_80 mma.sync and the loads and shuffles beside it, PTX_SM_89
// conversions of fp8 codes, PTX_SM_90 (of 9.0 alone, which has the others too) the rest. Lines that begin with "//sm_90a " are comments to an OpenCL compiler that targets sm_90; the
// toolchain sm_90a takes the marker away in the compiler's PTX and assembles that text. Operands are substituted in
// comments too, so registers are allocated as if the line were there. Every marked line ends in a newline.
#define UNROLL _Pragma("unroll")

// wgmma: orders registers before use; closes a group of instructions; waits until at most n groups are unfinished.
#define WGMMA_FENCE() asm volatile("//sm_90a wgmma.fence.sync.aligned;\n" ::: "memory")
#define WGMMA_COMMIT() asm volatile("//sm_90a wgmma.commit_group.sync.aligned;\n" ::: "memory")
#define WGMMA_WAIT_(n) asm volatile("//sm_90a wgmma.wait_group.sync.aligned " #n ";\n" ::: "memory")
#define WGMMA_WAIT(n) WGMMA_WAIT_(n)
// Registers move from the producer's warps to the consumers'.
#define REGS_MORE_(n) asm volatile("//sm_90a setmaxnreg.inc.sync.aligned.u32 " #n ";\n" ::: "memory")
#define REGS_LESS_(n) asm volatile("//sm_90a setmaxnreg.dec.sync.aligned.u32 " #n ";\n" ::: "memory")
#define REGS_MORE(n) REGS_MORE_(n)
#define REGS_LESS(n) REGS_LESS_(n)

// A descriptor of an operand in local memory, less its place: swizzle of 128 bytes, 1024 bytes from eight lines to the next.
#define DESCRIPTOR (1UL << 62 | 64UL << 32 | 1UL << 16)
// The types of A and of B, as products of fp8 name them.
#if A_TYPE == TYPE_E5M2 && B_TYPE == TYPE_E5M2
#define FP8_TYPES "e5m2.e5m2"
#elif A_TYPE == TYPE_E5M2
#define FP8_TYPES "e5m2.e4m3"
#elif B_TYPE == TYPE_E5M2
#define FP8_TYPES "e4m3.e5m2"
#else
#define FP8_TYPES "e4m3.e4m3"
#endif
#define OUT4_(P, i) "+f"((P)[i]), "+f"((P)[i + 1]), "+f"((P)[i + 2]), "+f"((P)[i + 3])
#define OUT16_(P, i) OUT4_(P, i), OUT4_(P, i + 4), OUT4_(P, i + 8), OUT4_(P, i + 12)
#define S16_ "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S32_ S16_ ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define S48_ S32_ ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S64_ S48_ ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
// Products of a warpgroup: P the sums, A0..A3 the thread's part of the first operand, DESC the second operand's
// descriptor, KEEP 0 to start from zero (a constant).
#define WGMMA_M64N64K16_F16(P, A0, A1, A2, A3, DESC, KEEP)                                                          \
  asm volatile("{\n.reg .pred q;\nsetp.ne.b32 q,%37,0;\n"                                                           \
               "//sm_90a wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" S32_ "},{%32,%33,%34,%35},%36,q,1,1,0;\n}\n" \
               : OUT16_(P, 0), OUT16_(P, 16)                                                                        \
               : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "l"(DESC), "n"(KEEP)                                           \
               : "memory")
#define OUT4_I_(P, i) "+r"((P)[i]), "+r"((P)[i + 1]), "+r"((P)[i + 2]), "+r"((P)[i + 3])
#define OUT16_I_(P, i) OUT4_I_(P, i), OUT4_I_(P, i + 4), OUT4_I_(P, i + 8), OUT4_I_(P, i + 12)
// Both operands in local memory, A and B their descriptors. TYPES: two of e4m3, e5m2, for the first and the second operand
#define FP8_PRODUCT_(COLUMNS, TYPES, SUMS, A, B, KEEP)                                                             \
  "{\n.reg .pred q;\nsetp.ne.b32 q," KEEP ",0;\n"                                                                  \
  "//sm_90a wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.f32." TYPES " {" SUMS "}," A "," B ",q,1,1;\n}\n"
#define FP8_OPERANDS_(A, B, KEEP) "l"(A), "l"(B), "n"(KEEP)
#define WGMMA_M64N32K32_FP8(TYPES, P, A, B, KEEP)                                                                  \
  asm volatile(FP8_PRODUCT_("32", TYPES, S16_, "%16", "%17", "%18")                                                \
               : OUT16_(P, 0) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N64K32_FP8(TYPES, P, A, B, KEEP)                                                                  \
  asm volatile(FP8_PRODUCT_("64", TYPES, S32_, "%32", "%33", "%34")                                                \
               : OUT16_(P, 0), OUT16_(P, 16) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N72K32_FP8(TYPES, P, A, B, KEEP)                                                                  \
  asm volatile(FP8_PRODUCT_("72", TYPES, S32_ ",%32,%33,%34,%35", "%36", "%37", "%38")                             \
               : OUT16_(P, 0), OUT16_(P, 16), OUT4_(P, 32) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N80K32_FP8(TYPES, P, A, B, KEEP)                                                                  \
  asm volatile(FP8_PRODUCT_("80", TYPES, S32_ ",%32,%33,%34,%35,%36,%37,%38,%39", "%40", "%41", "%42")             \
               : OUT16_(P, 0), OUT16_(P, 16), OUT4_(P, 32), OUT4_(P, 36) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N96K32_FP8(TYPES, P, A, B, KEEP)                                                                  \
  asm volatile(FP8_PRODUCT_("96", TYPES, S48_, "%48", "%49", "%50")                                                \
               : OUT16_(P, 0), OUT16_(P, 16), OUT16_(P, 32) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N128K32_FP8(TYPES, P, A, B, KEEP)                                                                 \
  asm volatile(FP8_PRODUCT_("128", TYPES, S64_, "%64", "%65", "%66")                                               \
               : OUT16_(P, 0), OUT16_(P, 16), OUT16_(P, 32), OUT16_(P, 48) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N136K32_FP8(TYPES, P, A, B, KEEP)                                                                 \
  asm volatile(FP8_PRODUCT_("136", TYPES, S64_ ",%64,%65,%66,%67", "%68", "%69", "%70")                            \
               : OUT16_(P, 0), OUT16_(P, 16), OUT16_(P, 32), OUT16_(P, 48), OUT4_(P, 64) : FP8_OPERANDS_(A, B, KEEP) : "memory")
#define WGMMA_M64N64K32_S8(P, A, B, KEEP)                                                                           \
  asm volatile("{\n.reg .pred q;\nsetp.ne.b32 q,%34,0;\n"                                                           \
               "//sm_90a wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" S32_ "},%32,%33,q;\n}\n"                 \
               : OUT16_I_(P, 0), OUT16_I_(P, 16)                                                                    \
               : "l"(A), "l"(B), "n"(KEEP)                                                                          \
               : "memory")
#define WGMMA_M64N128K32_S8(P, A, B, KEEP)                                                                          \
  asm volatile("{\n.reg .pred q;\nsetp.ne.b32 q,%66,0;\n"                                                           \
               "//sm_90a wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" S64_ "},%64,%65,q;\n}\n"                \
               : OUT16_I_(P, 0), OUT16_I_(P, 16), OUT16_I_(P, 32), OUT16_I_(P, 48)                                  \
               : "l"(A), "l"(B), "n"(KEEP)                                                                          \
               : "memory")
// One warp: 16x16 by 16x8, f16 in, or bf16 with MMA_OF_BF16; f32 sums. Products of pairs of bf16.
#if MMA_OF_BF16
#define HALF_TYPES "bf16.bf16"
#else
#define HALF_TYPES "f16.f16"
#endif
#define MMA_M16N8K16(c, a0, a1, a2, a3, b0, b1)                                                                    \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPES ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"      \
      : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

#define MUL_PAIRS(out, x, y) asm("fma.rn.bf16x2 %0,%1,%2,%3;" : "=r"(out) : "r"(x), "r"(y), "r"(0x80008000u))

// Four codes of a word as two pairs of f16, exact: by conversions, of neighbours, or by integers (half_words.cl), of every other code and
// in units that a sum of products is multiplied by. Both operands of a product have the same pairs; i8 goes with i8 only.
#if defined(PTX_SM_89)
#define DECODE4_4(lo, hi, v) \
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.rn.f16x2.e4m3x2 %0,l; cvt.rn.f16x2.e4m3x2 %1,h;}" : "=r"(lo), "=r"(hi) : "r"(v))
#define DECODE4_5(lo, hi, v) \
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.rn.f16x2.e5m2x2 %0,l; cvt.rn.f16x2.e5m2x2 %1,h;}" : "=r"(lo), "=r"(hi) : "r"(v))
#define SUM_OF_UNITS(sum) (sum)
#else
#define DECODE4_4(even, odd, v) HALFS_4(even, odd, v)
#define DECODE4_5(even, odd, v) HALFS_5(even, odd, v)
#define SUM_OF_UNITS(sum) ((sum) * (JOIN(HALF_UNIT_, A_TYPE) * JOIN(HALF_UNIT_, B_TYPE)))
#endif
// A byte i becomes the half 1024 + (i + 128), by its bits; 1152 is taken away.
#define DECODE4_7(lo, hi, v)                                                                                         \
  asm("{.reg .b32 x,c; xor.b32 x,%2,0x80808080; mov.b32 c,0x64806480; prmt.b32 %0,x,0x64646464,0x4140;"              \
      " prmt.b32 %1,x,0x64646464,0x4342; sub.f16x2 %0,%0,c; sub.f16x2 %1,%1,c;}" : "=&r"(lo), "=&r"(hi) : "r"(v))

// Barriers in local memory; addresses are 32-bit.
#define LOCAL_ADDRESS(p) ((uint)(ulong)(p))
#define BAR_INIT(a, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(a), "r"(n) : "memory")
#define BAR_INIT_DONE() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define BAR_ARRIVE(a) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(a) : "memory")
// A slot of local memory whose bytes this warp has read by loads goes back to who fills it by bulk copies: those would else overtake loads
// whose values nobody has used yet, and overwrite what they read. What wgmma alone has read needs no more than waiting for it.
#define GIVE_BACK(a) \
  do {               \
    FENCE_BULK();    \
    SYNC_WARP();     \
    if (lane == 0) BAR_ARRIVE(a); \
  } while (0)
#define BAR_ARRIVE_EXPECT(a, bytes) \
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(a), "r"(bytes) : "memory")
#define BAR_WAIT(a, parity)                                                                              \
  asm volatile("{\n.reg .pred q;\nW_LOOP:\nmbarrier.try_wait.parity.shared.b64 q,[%0],%1;\n@q bra W_DONE;\n" \
               "bra W_LOOP;\nW_DONE:\n}\n" ::"r"(a), "r"(parity) : "memory")
// A barrier of `count` of the work-group's work-items, by number.
#define BAR_NAMED(id, count) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory")
#define BAR_NAMED_ARRIVE(id, count) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory")
#define SYNC_WARP() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// Copies of 16 and of 4 bytes to local memory, in groups of the work-item's own.
#define LOCAL_PLACE uint
#define SHOWN_PARAMETER
#define SHOWN_ARGUMENT
#define ANY_OF_WARP(condition) any_of_warp(condition)
#define COPY16_ASYNC(dst, src) asm volatile("cp.async.cg.shared.global.L2::128B [%0],[%1],16;" ::"r"(dst), "l"(src) : "memory")
#define COPY4_ASYNC(dst, src) asm volatile("cp.async.ca.shared.global [%0],[%1],4;" ::"r"(dst), "l"(src) : "memory")
#define COPIES_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
// Four tiles of eight lines by 16 bytes, of each of which a work-item gets four bytes of line lane / 4, from 4 (lane % 4) on. PLACE and
// HALFS_PLACE of the including file say where piece PIECE of a line is, from FROM on. Of codes 32 lines; of f16 the pieces PIECE and
// PIECE + 1 of 16 lines, as the first operand of a product wants them.
#define LOAD_TILES_(r0, r1, r2, r3, from)                                                 \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"             \
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(from) : "memory")
#define LOAD_CODES(r, FROM, PIECE) LOAD_TILES_((r)[0], (r)[1], (r)[2], (r)[3], (FROM) + PLACE(lane, (uint)(PIECE)))
#define LOAD_HALFS(r0, r1, r2, r3, FROM, PIECE) LOAD_TILES_(r0, r1, r2, r3, (FROM) + HALFS_PLACE(lane & 15u, (PIECE) + (lane >> 4)))
#define STORE_LOCAL16(p, a, b, c, d) asm volatile("st.shared.v4.u32 [%0],{%1,%2,%3,%4};" ::"r"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory")

// Bulk copies: global to local memory, counted by a barrier; and global to the L2 alone.
#define BULK_COPY(dst, src, bytes, bar)                                                                        \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(dst), \
               "l"(src), "r"(bytes), "r"(bar) : "memory")
// The same where `now`, with a policy of the L2; the barrier is told of the bytes. By a predicate, since a branch around it was assembled into a
// kernel that hangs.
#define SEND_IF(now, to, from, bar, bytes, policy)                                                                    \
  asm volatile("{.reg .pred q; setp.ne.u32 q,%0,0; @q mbarrier.arrive.expect_tx.shared.b64 _,[%3],%4;"                \
               " @q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%1],[%2],%4,[%3],%5;}" \
               ::"r"((uint)(now)), "r"(to), "l"(from), "r"(bar), "r"(bytes), "l"(policy) : "memory")
#define BULK_PREFETCH(src, bytes) asm volatile("cp.async.bulk.prefetch.L2.global [%0],%1;" ::"l"(src), "r"(bytes) : "memory")
// Local to global memory, in groups of the work-item's own; FENCE_BULK: what work-items stored is seen by such copies. BULK_STORE_READ waits
// until those of this work-item have read what they send.
#define FENCE_BULK() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
// What work-items stored to memory is seen by such copies of others: FENCE_SENT, SET_WORD by one of them, a word of 128 bits in two halves, each
// whole; SEE_WORD, FENCE_SENT, the copy.
#define FENCE_SENT() asm volatile("fence.proxy.async.global;" ::: "memory")
#define SET_WORD(p, a, b) \
  asm volatile("fence.acq_rel.gpu; st.relaxed.gpu.global.v2.u64 [%0],{%1,%2};" ::"l"(p), "l"((ulong)(a)), "l"((ulong)(b)) : "memory")
#define SEE_WORD(a, b, p) asm volatile("ld.acquire.gpu.global.v2.u64 {%0,%1},[%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory")
#define BULK_STORE(dst, src, bytes) \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0],[%1],%2;" ::"l"(dst), "r"(src), "r"(bytes) : "memory")
#define BULK_STORE_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_STORE_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")

#define LOAD16(r, p)                                                                                                \
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "l"(p))
// Of memory that others store to meanwhile, STORE_SHOWN.
#define LOAD16_SHOWN(r, p)                                                                                          \
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];"                                                   \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "l"(p) : "memory")
#define LOAD_SHOWN(a, p) asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(a) : "l"(p) : "memory")
#define STORE8_SHOWN(p, a, b) asm volatile("st.relaxed.gpu.global.v2.u32 [%0],{%1,%2};" ::"l"(p), "r"(a), "r"(b) : "memory")
#define STORE_SHOWN(p, a) asm volatile("st.relaxed.gpu.global.u32 [%0],%1;" ::"l"(p), "r"(a) : "memory")
#define LOAD8(r, p) asm volatile("ld.global.nc.v2.u32 {%0,%1},[%2];" : "=r"((r)[0]), "=r"((r)[1]) : "l"(p))
#define LOAD16_STREAM(r, p)                                                                                          \
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3},[%4];"                                            \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "l"(p))
// Not by the path for read-only data: the assembler would move such a load down to its use, past barriers.
#define LOAD16_IN_ORDER(r, p) \
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "l"(p) : "memory")
#define LOAD16_STREAM_IN_ORDER(r, p)                                                                                     \
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3},[%4];"                                            \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "l"(p) : "memory")
#define LOAD4(a, p) asm volatile("ld.global.nc.u32 %0,[%1];" : "=r"(a) : "l"(p))
#define LOAD2(a, p) asm volatile("{.reg .b16 h; ld.global.nc.u16 h,[%1]; cvt.u32.u16 %0,h;}" : "=r"(a) : "l"(p))
#define LOAD_F(a, p) asm volatile("ld.global.nc.f32 %0,[%1];" : "=f"(a) : "l"(p))
#define LOCAL_F(a, p) asm volatile("ld.shared.f32 %0,[%1];" : "=f"(a) : "r"(p))
#define LOCAL_F2(a, b, p) asm volatile("ld.shared.v2.f32 {%0,%1},[%2];" : "=f"(a), "=f"(b) : "r"(p))
#define LOAD_F2(a, b, p) asm volatile("ld.global.nc.v2.f32 {%0,%1},[%2];" : "=f"(a), "=f"(b) : "l"(p))
#define LOCAL_F4(a, b, c, d, p) \
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(p))
#define LOCAL16(r, p) \
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(p) : "memory")
#define STORE_LOCAL_F(p, a) asm volatile("st.shared.f32 [%0],%1;" ::"r"(p), "f"(a) : "memory")
#define STORE_LOCAL_F2(p, a, b) asm volatile("st.shared.v2.f32 [%0],{%1,%2};" ::"r"(p), "f"(a), "f"(b) : "memory")
#define STORE_LOCAL_F4(p, a, b, c, d) asm volatile("st.shared.v4.f32 [%0],{%1,%2,%3,%4};" ::"r"(p), "f"(a), "f"(b), "f"(c), "f"(d) : "memory")
#define STORE_LOCAL8(p, a, b) asm volatile("st.shared.v2.u32 [%0],{%1,%2};" ::"r"(p), "r"(a), "r"(b) : "memory")
#define STORE16(p, a, b, c, d) asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory")
#define STORE8(p, a, b) asm volatile("st.global.v2.u32 [%0],{%1,%2};" ::"l"(p), "r"(a), "r"(b) : "memory")
#define STORE_F4(p, a, b, c, d) asm volatile("st.global.v4.f32 [%0],{%1,%2,%3,%4};" ::"l"(p), "f"(a), "f"(b), "f"(c), "f"(d) : "memory")
#define TO_BF16X2(d, lo, hi) asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(d) : "f"(hi), "f"(lo))
#define TO_F16X2(d, lo, hi) asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(d) : "f"(hi), "f"(lo))
// A word of two elements of D, where those have 16 bits.
#if D_TYPE == TYPE_BF16
#define TO_PAIR TO_BF16X2
#else
#define TO_PAIR TO_F16X2
#endif
#if defined(PTX_SM_80)
static inline uint any_of_warp(uint condition) {
  uint any;
  asm volatile("{.reg .pred p,q; setp.ne.u32 p,%1,0; vote.sync.any.pred q,p,0xffffffff; selp.u32 %0,1,0,q;}" : "=r"(any) : "r"(condition));
  return any;
}
#endif
// The lanes of the warp that give the same value.
#define LANES_WITH(mask, value) asm volatile("match.any.sync.b32 %0,%1,0xffffffff;" : "=r"(mask) : "r"(value))
#define SHUFFLE_XOR(out, in, mask) asm volatile("shfl.sync.bfly.b32 %0,%1,%2,0x1f,0xffffffff;" : "=r"(out) : "r"(in), "r"(mask))
#define SHUFFLE(out, in, lane) asm volatile("shfl.sync.idx.b32 %0,%1,%2,0x1f,0xffffffff;" : "=r"(out) : "r"(in), "r"(lane))
