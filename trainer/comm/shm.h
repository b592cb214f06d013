/* Room in shared memory (/dev/shm), asked before anything is placed there. */
#ifndef TRAINER_COMM_SHM_H
#define TRAINER_COMM_SHM_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Free bytes of /dev/shm; SIZE_MAX where it cannot be asked. */
size_t mt_shm_free_bytes(void);

/* MK_ERR_MEMORY with both numbers and the remedy when `free_bytes` are fewer than `needed_bytes`. */
mk_status mt_shm_check(mk_context *ctx, const char *what, size_t needed_bytes, size_t free_bytes);

/* That failure, for one who found out otherwise that there is no room. */
mk_status mt_shm_fail(mk_context *ctx, const char *what, size_t needed_bytes, size_t free_bytes);

#ifdef __cplusplus
}
#endif

#endif
