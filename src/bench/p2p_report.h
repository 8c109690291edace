/* p2p_report.h - where p2p_bench's results go. Only rank 0 reports. */
#ifndef BENCH_P2P_REPORT_H
#define BENCH_P2P_REPORT_H

#include "bench/p2p.h"

#include <stdio.h>

/* Open the files asked for, and write all reports. Collective; they end the run if a file cannot be written. */
void p2p_reports_open(struct p2p *p2p);
void p2p_reports_write(struct p2p *p2p);

/* p2p_table.c, p2p_json.c, p2p_csv.c. False: it could not be written. */
void p2p_table_write(const struct p2p *p2p);
bool p2p_json_write(const struct p2p *p2p, FILE *stream);
bool p2p_csv_write(const struct p2p *p2p, FILE *stream);

#endif
