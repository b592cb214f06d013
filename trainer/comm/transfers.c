/* Transfer lists: see transfers.h. Cost: linear in the list. */
#include "trainer/comm/transfers.h"

#include <string.h>

mk_status mt_transfers_add(mk_context *ctx, mt_transfer_list *list, void *data, int64_t bytes, int peer, bool is_recv) {
  if (bytes == 0) return MK_OK;
  MK_CHECK(ctx, list->n < list->capacity, MK_ERR_ARG, "more than %d sends and receives in one group", list->capacity);
  list->item[list->n++] =
      (mt_transfer){.data = (char *)data, .bytes = bytes, .peer = peer, .is_recv = is_recv, .next = -1};
  return MK_OK;
}

mk_status mt_transfers_add_rows(mk_context *ctx, mt_transfer_list *list, void *base, int64_t row_bytes,
                                const int64_t *rows, int size, bool is_recv) {
  int64_t first = 0;
  for (int r = 0; r < size; r++) {
    MK_TRY(ctx, mt_transfers_add(ctx, list, (char *)base + first * row_bytes, rows[r] * row_bytes, r, is_recv));
    first += rows[r];
  }
  return MK_OK;
}

/* Next own transfer of the direction at or after `at`; list->n when there is none. */
static int find_own(const mt_transfer_list *list, int rank, bool is_recv, int at) {
  while (at < list->n && (list->item[at].peer != rank || list->item[at].is_recv != is_recv))
    at++;
  return at;
}

mk_status mt_transfers_copy_own(mk_context *ctx, mt_transfer_list *list, int rank) {
  int send = find_own(list, rank, false, 0), recv = find_own(list, rank, true, 0);
  while (send < list->n && recv < list->n) {
    const mt_transfer *from = &list->item[send], *to = &list->item[recv];
    MK_CHECK(ctx, from->bytes == to->bytes, MK_ERR_ARG, "a rank sends %lld bytes to itself but receives %lld",
             (long long)from->bytes, (long long)to->bytes);
    if (to->data != from->data) memmove(to->data, from->data, (size_t)from->bytes);
    send = find_own(list, rank, false, send + 1);
    recv = find_own(list, rank, true, recv + 1);
  }
  MK_CHECK(ctx, send == list->n && recv == list->n, MK_ERR_ARG,
           "a rank's sends to itself and receives from itself do not pair up");
  int kept = 0;
  for (int i = 0; i < list->n; i++) {
    if (list->item[i].peer != rank) list->item[kept++] = list->item[i];
  }
  list->n = kept;
  return MK_OK;
}

void mt_transfers_link(mt_transfer_list *list, int size, int *heads, int *tails) {
  for (int i = 0; i < 2 * size; i++)
    heads[i] = tails[i] = -1;
  for (int i = 0; i < list->n; i++) {
    mt_transfer *t = &list->item[i];
    int chain = 2 * t->peer + (t->is_recv ? 0 : 1);
    t->passed_bytes = 0;
    t->next = -1;
    if (heads[chain] < 0) heads[chain] = i;
    if (tails[chain] >= 0) list->item[tails[chain]].next = i;
    tails[chain] = i;
  }
}

int64_t mt_transfer_piece_bytes(const mt_transfer *t, int64_t limit_bytes) {
  int64_t left = t->bytes - t->passed_bytes;
  return left < limit_bytes ? left : limit_bytes;
}
