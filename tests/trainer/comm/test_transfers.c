/* Transfer lists: 64-bit offsets, pieces, chains, copies to itself. */
#include <string.h>

#include "tests/support/check_main.h"
#include "trainer/comm/transfers.h"

enum { CAPACITY = 8 };

typedef struct lists {
  mk_context ctx;
  mt_transfer item[CAPACITY];
  mt_transfer_list list;
} lists;

static void lists_init(lists *l) {
  memset(l, 0, sizeof *l);
  l->list = (mt_transfer_list){.item = l->item, .capacity = CAPACITY};
}

/* Three peers of 1.2e9 elements: the third displacement is 2.4e9, which an `int` makes -1,894,967,296 (NVIDIA/raft#21,
 * open-mpi/ompi#5383). Addresses are computed, never read. */
START_TEST(offsets_beyond_2_gib) {
  lists l;
  lists_init(&l);
  const int64_t rows[3] = {1200000000, 1200000000, 1200000000};
  char *base = (char *)(uintptr_t)4096;
  ck_assert_int_eq(mt_transfers_add_rows(&l.ctx, &l.list, base, 1, rows, 3, false), MK_OK);
  ck_assert_int_eq(l.list.n, 3);
  ck_assert_int_eq(l.item[2].data - base, 2400000000LL);
  lists_init(&l);
  ck_assert_int_eq(mt_transfers_add_rows(&l.ctx, &l.list, base, 2048 * 2, rows, 3, true), MK_OK);
  ck_assert_int_eq(l.item[2].data - base, 2400000000LL * 4096);
  ck_assert_int_eq(l.item[2].bytes, 1200000000LL * 4096);
}
END_TEST

START_TEST(pieces_fit_int) {
  mt_transfer t = {.bytes = 5LL << 30};
  const int64_t limit = 1 << 30;
  int n = 0;
  for (; t.passed_bytes < t.bytes; n++) {
    int64_t piece = mt_transfer_piece_bytes(&t, limit);
    ck_assert_int_gt(piece, 0);
    ck_assert_int_le(piece, limit);
    t.passed_bytes += piece;
  }
  ck_assert_int_eq(n, 5);
  t = (mt_transfer){.bytes = 10};
  ck_assert_int_eq(mt_transfer_piece_bytes(&t, 4), 4);
  t.passed_bytes = 8;
  ck_assert_int_eq(mt_transfer_piece_bytes(&t, 4), 2);
  t.passed_bytes = 10;
  ck_assert_int_eq(mt_transfer_piece_bytes(&t, 4), 0);
}
END_TEST

START_TEST(chains_keep_order) {
  lists l;
  lists_init(&l);
  char data[8];
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 1, 2, false), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 2, 2, true), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 0, 0, true), MK_OK); /* dropped */
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 3, 2, false), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 4, 0, false), MK_OK);
  int heads[6], tails[6];
  mt_transfers_link(&l.list, 3, heads, tails);
  const int want[6] = {-1, 3, -1, -1, 1, 0};
  for (int i = 0; i < 6; i++)
    ck_assert_msg(heads[i] == want[i], "head %d: %d, expected %d", i, heads[i], want[i]);
  ck_assert_int_eq(l.item[0].next, 2);
  ck_assert_int_eq(l.item[2].next, -1);
  ck_assert_int_eq(l.item[1].next, -1);
}
END_TEST

START_TEST(own_transfers_pair_in_order) {
  lists l;
  lists_init(&l);
  char from[4] = "abc", to[4] = "...";
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, to + 1, 2, 1, true), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, from, 2, 1, false), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, from, 1, 0, false), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, to, 1, 1, true), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, from + 2, 1, 1, false), MK_OK);
  ck_assert_int_eq(mt_transfers_copy_own(&l.ctx, &l.list, 1), MK_OK);
  ck_assert_str_eq(to, "cab");
  ck_assert_int_eq(l.list.n, 1);
  ck_assert_int_eq(l.item[0].peer, 0);
}
END_TEST

START_TEST(own_transfers_must_pair) {
  lists l;
  lists_init(&l);
  char data[4];
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 2, 1, true), MK_OK);
  ck_assert_int_eq(mt_transfers_copy_own(&l.ctx, &l.list, 1), MK_ERR_ARG);
  mk_error_clear(&l.ctx);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 1, 1, false), MK_OK);
  ck_assert_int_eq(mt_transfers_copy_own(&l.ctx, &l.list, 1), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(l.ctx.error.message, "1 bytes to itself but receives 2"));
}
END_TEST

START_TEST(a_full_list_is_refused) {
  lists l;
  lists_init(&l);
  char data[1];
  for (int i = 0; i < CAPACITY; i++)
    ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 1, 0, true), MK_OK);
  ck_assert_int_eq(mt_transfers_add(&l.ctx, &l.list, data, 1, 0, true), MK_ERR_ARG);
  ck_assert_int_eq(l.list.n, CAPACITY);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("transfers");
  TCase *tc = tcase_create("lists");
  tcase_add_test(tc, offsets_beyond_2_gib);
  tcase_add_test(tc, pieces_fit_int);
  tcase_add_test(tc, chains_keep_order);
  tcase_add_test(tc, own_transfers_pair_in_order);
  tcase_add_test(tc, own_transfers_must_pair);
  tcase_add_test(tc, a_full_list_is_refused);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
