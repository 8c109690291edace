/* doctor.c - `treering doctor`: what will break, before it hangs. The looking is done in src/doctor/. */
#include "doctor/doctor.h"
#include "bench/launcher.h"
#include "doctor/watch.h"
#include "tool/doctor.h"

#include <argp.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "treering doctor";

/* ---- Options ----------------------------------------------------------------------------------------------------- */

struct options {
    bool json, help;
    double timeout_s;
};

static const struct argp_option rows[] = {
    {"json", 'j', NULL, 0, "Write JSON (schema \"treering-doctor\", see docs/doctor.md) in place of the table", 0},
    {"timeout", 't', "SECONDS", 0, "The longest wait for a rank, a GPU or a driver in one step (default 30)", 0},
    {"help", 'h', NULL, 0, "Write this help", 0},
    {0},
};

static const char about[] = "Looks at this launch and its machine, says what will break and what to do about it.\v"
                            "Run it in place of the program, with the same launcher and options:\n"
                            "  mpirun -np 8 ./treering doctor\n"
                            "  srun -n 8 --gpus-per-node=8 --gpu-bind=none ./treering doctor --json\n"
                            "\n"
                            "Exit codes:\n"
                            "  0  nothing will break (there may be warnings)\n"
                            "  1  a rank or a driver did not answer in time; a sentence says which, and where it hung\n"
                            "  2  an option is unknown or its value unusable\n"
                            "  4  something will break";

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    char *end;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case 't':
        options->timeout_s = strtod(text, &end);
        if (end != text && !*end && options->timeout_s >= 1 && options->timeout_s <= 86400)
            return 0;
        argp_failure(state, 0, 0, "-t takes seconds, 1 to 86400, not '%s'", text);
        return EINVAL;
    case ARGP_KEY_ARG:
        argp_failure(state, 0, 0, "unexpected argument '%s': options start with -, see --help", text);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static bool print(const struct doctor *doctor, const struct doctor_finding *findings, bool json, int code)
{
    bool written = json ? doctor_print_json(doctor, findings, code) : doctor_print_table(doctor, findings);
    if (!written)
        fprintf(stderr, "%s: cannot write to standard output: free space there, or write elsewhere\n", program);
    return written;
}

static enum tool_exit examine(const struct options *options, const struct doctor_facts *facts,
                              const struct doctor_gpus *gpus, struct doctor *doctor)
{
    doctor_examine(doctor, facts, gpus);
    struct doctor_finding *findings = doctor_judge(doctor);
    if (!findings)
        watch_die("no memory for the findings");
    enum tool_exit code = doctor_worst(findings) == DOCTOR_PROBLEM ? TOOL_EXIT_CANNOT : TOOL_EXIT_OK;
    /* where the launcher started single ranks that do not know of each other, one of them speaks */
    if (doctor->rank == 0 && launcher_rank() == 0 && !print(doctor, findings, options->json, code))
        code = TOOL_EXIT_FAILED;
    doctor_findings_free(findings);
    return code;
}

int tool_doctor(int argc, char **argv)
{
    const struct argp argp = {.options = rows, .parser = parse_option, .doc = about};
    struct options options = {.timeout_s = 30};
    char name[sizeof program];
    memcpy(name, program, sizeof name);
    argv[0] = name;
    unsigned flags = ARGP_NO_HELP | ARGP_NO_EXIT | (launcher_rank() == 0 ? 0 : ARGP_NO_ERRS);
    if (argp_parse(&argp, argc, argv, flags, NULL, &options))
        return TOOL_EXIT_USAGE;
    if (options.help) {
        if (launcher_rank() == 0)
            argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return fflush(stdout) == 0 && !ferror(stdout) ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
    }
    struct doctor doctor = {.program = program, .timeout_s = options.timeout_s};
    struct doctor_facts facts;
    struct doctor_gpus gpus;
    doctor_open(&doctor, &facts, &gpus);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &doctor.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &doctor.nranks);
    watch_open(program, doctor.rank);
    doctor_facts_collect_mpi(&facts, program, doctor.nranks);
    enum tool_exit code = examine(&options, &facts, &gpus, &doctor);
    watch_step("MPI_Finalize", 2 * options.timeout_s + 10, "a rank hangs at its end: see which processes are left");
    MPI_Finalize();
    doctor_close(&doctor);
    return code;
}
