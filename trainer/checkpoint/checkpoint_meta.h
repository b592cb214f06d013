/* What a checkpoint says about itself: <checkpoint>/checkpoint.json, one JSON object with a checksum of its own.
 *
 * {"schema":"moemark/checkpoint/1","step":20,"taken":20,"windows":320,"trained_s":1.5,"schedule_end":40,
 *  "evaluated":20,"end":40,"data":"<SHA-256: which data, see mt_data_fingerprint>","config":{all keys},
 *  "files":[{"name":"shard-00000.safetensors","bytes":123,"sha256":"<64 hex digits>"},...],
 *  "checksum":"<SHA-256 of everything before this key>"} */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_META_H
#define TRAINER_CHECKPOINT_CHECKPOINT_META_H

#include "kernels/base/hash.h"
#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_CHECKPOINT_NAME_BYTES = 64 };

typedef struct mt_checkpoint_file {
  char name[MT_CHECKPOINT_NAME_BYTES];
  int64_t bytes;
  char sha256[MK_HASH_BYTES];
} mt_checkpoint_file;

typedef struct mt_checkpoint_meta {
  int64_t step;                    /* optimizer steps done, skipped ones included */
  int64_t taken;                   /* the t of Adam */
  int64_t windows;                 /* training windows consumed: the position in the data */
  double trained_s;                /* training time so far */
  int64_t schedule_end;            /* step at which the learning-rate schedule ends */
  int64_t evaluated;               /* last step whose held-out loss is known, 0 = none; files without it: step */
  int64_t end;                     /* step at which the run was to end; files without it: 0 */
  char fingerprint[MK_HASH_BYTES]; /* of the data */
  mt_config config;                /* of the run that wrote it */
  int64_t files;
  mt_checkpoint_file *file; /* [files] */
} mt_checkpoint_meta;

/* Writes checkpoint.json into `folder`. MK_ERR_OUTPUT. */
mk_status mt_checkpoint_meta_write(mk_context *ctx, const char *folder, const mt_checkpoint_meta *meta);

/* Reads and checks it: MK_ERR_IO where it cannot be read, MK_ERR_FORMAT where it is cut short, altered or foreign. */
mk_status mt_checkpoint_meta_read(mk_context *ctx, const char *folder, mt_checkpoint_meta *out);
/* Frees the list of files; legal on a zeroed one. */
void mt_checkpoint_meta_fini(mk_context *ctx, mt_checkpoint_meta *meta);

/* Size and checksum of the file on the disk against those in `file`. MK_ERR_IO where it cannot be read, MK_ERR_FORMAT
 * where it was cut short or altered. */
mk_status mt_checkpoint_file_check(mk_context *ctx, const char *folder, const mt_checkpoint_file *file);

/* Name, bytes and sha256 of <folder>/<name>. MK_ERR_IO. */
mk_status mt_checkpoint_file_describe(mk_context *ctx, const char *folder, const char *name, mt_checkpoint_file *out);

#ifdef __cplusplus
}
#endif

#endif
