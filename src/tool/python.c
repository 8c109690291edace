/* python.c - running one of our Python scripts, with the Python that configure found. */
#include "tool/python.h"

#include "collectives/error.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ARGUMENTS = 64 };

/* The folder of this program, without a slash at its end; "." when the system does not say. */
static void program_folder(char folder[static PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        strcpy(folder, ".");
}

static enum tr_status find_script(const char *name, char path[static PATH_MAX])
{
    char folder[PATH_MAX];
    program_folder(folder);
    int length = snprintf(path, PATH_MAX, "%s/libexec/%s", folder, name);
    if (length < PATH_MAX && access(path, R_OK) == 0)
        return TR_OK;
    length = snprintf(path, PATH_MAX, "%s/%s", TR_SCRIPT_FOLDER, name);
    if (length < PATH_MAX && access(path, R_OK) == 0)
        return TR_OK;
    return tr_error(TR_ERR_SYSTEM,
                    "the script %s is neither in %s/libexec (a build folder) nor in %s: run 'make install', or start "
                    "treering from its build folder",
                    name, folder, TR_SCRIPT_FOLDER);
}

static enum tr_status no_python(int error)
{
    return tr_error(TR_ERR_SYSTEM,
                    "cannot start %s, the Python that configure found: %s; install python3 and python3-matplotlib, or "
                    "give ./configure PYTHON=PROGRAM",
                    TR_PYTHON, strerror(error));
}

static enum tr_status spawn(const char *path, const char *const *arguments, int input, pid_t *pid)
{
    const char *argv[MAX_ARGUMENTS + 3] = {TR_PYTHON, path};
    int n = 2;
    while (n < MAX_ARGUMENTS + 2 && arguments[n - 2]) {
        argv[n] = arguments[n - 2];
        n++;
    }
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions))
        return tr_error(TR_ERR_SYSTEM, "no memory to start %s", TR_PYTHON);
    int error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!error)
        error = posix_spawnp(pid, TR_PYTHON, &actions, NULL, (char *const *)(const void *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error ? no_python(error) : TR_OK;
}

enum tr_status tool_script_start(const char *name, const char *const *arguments, struct tool_script *script)
{
    char path[PATH_MAX];
    int ends[2];
    struct tool_script started = {.name = name};
    enum tr_status status = find_script(name, path);
    if (status != TR_OK)
        return status;
    if (pipe2(ends, O_CLOEXEC))
        return tr_error(TR_ERR_SYSTEM, "no pipe to %s: %s", name, strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    status = spawn(path, arguments, ends[0], &started.pid);
    close(ends[0]);
    started.input = status == TR_OK ? fdopen(ends[1], "w") : NULL;
    if (!started.input) {
        close(ends[1]);
        return status == TR_OK ? tr_error(TR_ERR_SYSTEM, "no stream to %s: %s", name, strerror(errno)) : status;
    }
    *script = started;
    return TR_OK;
}

enum tr_status tool_script_finish(struct tool_script *script)
{
    int lost = ferror(script->input), end = 0;
    lost |= fclose(script->input);
    while (waitpid(script->pid, &end, 0) < 0)
        if (errno != EINTR)
            return tr_error(TR_ERR_SYSTEM, "waiting for %s: %s", script->name, strerror(errno));
    if (WIFSIGNALED(end))
        return tr_error(TR_ERR_SYSTEM, "%s was ended by signal %d", script->name, WTERMSIG(end));
    if (WEXITSTATUS(end))
        return tr_error(TR_ERR_SYSTEM, "%s failed with exit code %d; its reason stands above", script->name,
                        WEXITSTATUS(end));
    return lost ? tr_error(TR_ERR_SYSTEM, "%s ended before it had read all", script->name) : TR_OK;
}

enum tr_status tool_script_exec(const char *name, char *const *arguments)
{
    char path[PATH_MAX];
    enum tr_status status = find_script(name, path);
    if (status != TR_OK)
        return status;
    size_t n = 0;
    while (arguments[n])
        n++;
    const char **argv = calloc(n + 3, sizeof *argv);
    if (!argv)
        return tr_error(TR_ERR_MEMORY, "no memory to start %s", TR_PYTHON);
    argv[0] = TR_PYTHON;
    argv[1] = path;
    for (size_t i = 0; i < n; i++)
        argv[i + 2] = arguments[i];
    execvp(TR_PYTHON, (char *const *)(const void *)argv);
    int error = errno;
    free(argv);
    return no_python(error);
}
