/* A canonical text, one fact a line, hashed. */
#include "suite/provenance/comparability.h"

#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/heap.h"

mk_status ms_comparability_hash(mk_context *ctx, const ms_machine *machine, const ms_case *c, const ms_records *records,
                                char out[MK_HASH_BYTES]) {
  mk_status st = MK_OK;
  char *text = NULL;
  char here[65];
  MK_TRY_GOTO(ctx, ms_machine_hash(ctx, machine, here), out);
  MK_TRY_GOTO(
      ctx,
      mk_heap_printf(ctx, &text,
                     "moemark/comparability/1\nmachine %s\ndevice %s\nkernel %s\nisa %s\nlibrary %s\nranks %lld\n"
                     "threads %lld\nprecision %d\nconfig %s\npeer %s %s\n",
                     here, records->device, records->kernel, records->isa, records->library, (long long)records->ranks,
                     (long long)records->threads, (int)c->config.precision, c->hash, c->peer, c->peer_args),
      out);
  MK_TRY_GOTO(ctx, mk_hash_bytes(ctx, text, strlen(text), out), out);
out:
  mk_heap_free(ctx, text);
  return st;
}
