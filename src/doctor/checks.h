/* checks.h - the checks, one function each; checks.c has the table, in the order in which a person reads it. */
#ifndef DOCTOR_CHECKS_H
#define DOCTOR_CHECKS_H

#include "doctor/finding.h"

/* check_launch.c */
doctor_check check_launcher, check_hosts, check_gpu_binding, check_mpi, check_cuda_aware;
/* check_process.c */
doctor_check check_user, check_pid_namespace, check_ipc_namespace, check_private_writes;
/* check_memory.c */
doctor_check check_memory, check_dev_shm, check_locked_memory;
/* check_cpu.c */
doctor_check check_cpu_share, check_affinity, check_near_gpu;
/* check_gpu.c */
doctor_check check_gpus, check_gpu_sharing, check_mps, check_gpu_memory, check_cuda_versions, check_nccl;
/* check_card.c */
doctor_check check_nvlink, check_clocks;
/* check_pairs.c */
doctor_check check_shared_memory, check_peer_access, check_gpu_pairs, check_transport;

#endif
