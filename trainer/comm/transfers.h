/* Lists of point-to-point transfers: what every data movement of the MPI backend becomes. Plain data and arithmetic,
 * no MPI: offsets and sizes are 64-bit bytes, and a transfer is cut into pieces that fit an `int` count.
 *
 * Transfers of one peer and direction form a chain and run one after another, so that pieces match in order at the
 * other end; chains of different peers or directions run together, so that no order of a list can block another. */
#ifndef TRAINER_COMM_TRANSFERS_H
#define TRAINER_COMM_TRANSFERS_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_transfer {
  char *data;
  int64_t bytes;
  int peer;
  bool is_recv;
  int64_t passed_bytes; /* already moved, while running */
  int next;             /* next of the chain; -1 = last */
} mt_transfer;

typedef struct mt_transfer_list {
  mt_transfer *item;
  int n, capacity;
} mt_transfer_list;

/* Appends; zero bytes are dropped (both ends know). MK_ERR_ARG when the list is full. */
mk_status mt_transfers_add(mk_context *ctx, mt_transfer_list *list, void *data, int64_t bytes, int peer, bool is_recv);

/* Appends one transfer a rank: rows[r] consecutive rows of row_bytes for rank r = 0 .. size-1, from `base` on. */
mk_status mt_transfers_add_rows(mk_context *ctx, mt_transfer_list *list, void *base, int64_t row_bytes,
                                const int64_t *rows, int size, bool is_recv);

/* Copies the transfers of a rank to itself (k-th send to k-th receive) and removes them. MK_ERR_ARG when they do not
 * pair up. */
mk_status mt_transfers_copy_own(mk_context *ctx, mt_transfer_list *list, int rank);

/* Sets the chains. heads[2 * size] gets the first transfer of peer p, received at heads[2 * p], sent at
 * heads[2 * p + 1]; -1 = none. tails is scratch of the same size. */
void mt_transfers_link(mt_transfer_list *list, int size, int *heads, int *tails);

/* Bytes of the next piece under a limit; 0 when the transfer is finished. */
int64_t mt_transfer_piece_bytes(const mt_transfer *t, int64_t limit_bytes);

#ifdef __cplusplus
}
#endif

#endif
