/* A row of the equivalence table: one configuration, written as `key=value key=value ...` over the tiny model. */
#ifndef TESTS_TRAINER_PARALLEL_ROW_H
#define TESTS_TRAINER_PARALLEL_ROW_H

#include "trainer/launch/config.h"

enum { ROW_TEXT_BYTES = 512, ROW_KEY_BYTES = 4096 };

typedef struct row {
  char text[ROW_TEXT_BYTES];
  mt_config cfg;
  /* settings of a row that a run's configuration does not know */
  bool replay;          /* routing=replay: experts are chosen by the one-rank twin */
  int64_t microbatches; /* microbatches=M: of a step, in place of global_tokens; 0 = not said */
} row;

/* Parses the settings over the base configuration of `ranks` ranks: two microbatches a rank, one layer more than the
 * pipeline has stages. MK_ERR_CONFIG names a wrong key or value. Legality is mt_config_check's. */
mk_status row_parse(mk_context *ctx, const char *text, int ranks, row *out);

/* The twin with one rank, which sees the token blocks of all ranks as microbatches. */
mt_config row_one_rank(const row *r);

/* The twin that must give the same bits: the same layout on the cpu device, without guard and recompute, and with
 * block in place of rowwise (rows here never drop). */
mt_config row_plain(const row *r);

/* All keys of a configuration as text: equal texts, equal configurations. */
void row_key(const mt_config *cfg, char *text, size_t bytes);

#endif
