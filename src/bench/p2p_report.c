/* p2p_report.c - the reports of p2p_bench: the table, the JSON file and the CSV file. */
#include "bench/p2p_report.h"

#include "bench/fail.h"
#include "bench/report.h"

#include <stdlib.h>

static struct report_file json, csv;

static bool open_files(const struct p2p *p2p, char *why, size_t size)
{
    const struct p2p_options *options = &p2p->options;
    return (!options->json_path || report_file_open(&json, options->json_path, why, size)) &&
           (!options->csv_path || report_file_open(&csv, options->csv_path, why, size));
}

void p2p_reports_open(struct p2p *p2p)
{
    char why[512] = "";
    bool good = true;
    if (p2p->rank == 0) {
        atexit(report_files_remove); /* what a run that failed did not complete */
        good = open_files(p2p, why, sizeof why);
    }
    bench_agree(&p2p->bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

static bool write_file(const struct p2p *p2p, bool (*write)(const struct p2p *p2p, FILE *stream),
                       struct report_file *file, char *why, size_t size)
{
    if (!file->stream)
        return true;
    if (write(p2p, file->stream))
        return report_file_finish(file, why, size);
    snprintf(why, size, "cannot write %.200s: free space there, or give another path", file->path);
    return false;
}

void p2p_reports_write(struct p2p *p2p)
{
    char why[512] = "";
    bool good = true;
    if (p2p->rank == 0) {
        p2p_table_write(p2p);
        good = write_file(p2p, p2p_json_write, &json, why, sizeof why) &&
               write_file(p2p, p2p_csv_write, &csv, why, sizeof why);
    }
    bench_agree(&p2p->bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}
