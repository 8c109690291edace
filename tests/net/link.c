/*
 * link.c - time TCP messages over a link of known rate, fit them, and compare beta with the rate; link_test.sh makes the
 * link.
 *
 *     link serve                             receive messages, acknowledge each with a byte
 *     link measure ADDRESS MBIT              send to a server; exit code 0: beta is within 10% of the rate
 */
#include "model/fit.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT = 7421, /* in a network namespace of its own */
    SMALLEST = 64,
    NSIZES = 15, /* to 1 MiB */
    LARGEST = SMALLEST << (NSIZES - 1),
    REPEATS = 7,
    CONNECT_TRIES = 100 /* a tenth of a second apart */
};

static char buffer[LARGEST];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void write_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n <= 0)
            die("write");
        done += (size_t)n;
    }
}

/* False at the end of the stream. */
static bool read_all(int fd, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(fd, (char *)data + done, bytes - done);
        if (n < 0)
            die("read");
        if (n == 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* A message: its length in 8 bytes, then as many bytes. */
static int serve(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int listening = open_socket();
    if (bind(listening, (struct sockaddr *)&address, sizeof address) != 0 || listen(listening, 1) != 0)
        die("listen");
    int fd = accept(listening, NULL, NULL);
    if (fd < 0)
        die("accept");
    uint64_t bytes;
    while (read_all(fd, &bytes, sizeof bytes) && bytes <= sizeof buffer && read_all(fd, buffer, bytes))
        write_all(fd, "", 1);
    return 0;
}

static int reach(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die(host);
    for (int i = 0; i < CONNECT_TRIES; i++) {
        int fd = open_socket();
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        close(fd);
        usleep(100000);
    }
    die("connect");
    return -1;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double time_us(int fd, uint64_t bytes)
{
    char acknowledgement;
    double start = now_us();
    write_all(fd, &bytes, sizeof bytes);
    write_all(fd, buffer, bytes);
    if (!read_all(fd, &acknowledgement, 1))
        die("the server is gone");
    return now_us() - start;
}

/* All sizes several times, in turn; the first round opens TCP's window and is left out. */
static int measure(const char *host, double gbps)
{
    struct tr_fit_point points[NSIZES * REPEATS];
    struct tr_fit fit;
    int fd = reach(host), n = 0;
    for (int repeat = -1; repeat < REPEATS; repeat++)
        for (int i = 0; i < NSIZES; i++) {
            double us = time_us(fd, (uint64_t)SMALLEST << i);
            if (repeat >= 0)
                points[n++] = (struct tr_fit_point){(double)(SMALLEST << i), us};
        }
    close(fd);
    if (tr_fit_curve(points, n, 1, &fit) != TR_OK) {
        fprintf(stderr, "%s\n", tr_last_error());
        return 1;
    }
    for (int k = 0; k < fit.nsegments; k++) {
        const struct tr_segment *s = &fit.segments[k];
        printf("# %g..%g bytes: alpha %.1f us [%.1f, %.1f], beta %.4f GB/s [%.4f, %.4f]\n", s->from_bytes, s->to_bytes,
               s->alpha_us.value, s->alpha_us.low, s->alpha_us.high, s->beta_gbps.value, s->beta_gbps.low,
               s->beta_gbps.high);
    }
    double beta = fit.segments[fit.nsegments - 1].beta_gbps.value;
    printf("# the link was set to %.4f GB/s: %+.1f%%\n", gbps, 100 * (beta / gbps - 1));
    return fabs(beta / gbps - 1) <= 0.1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return serve();
    if (argc == 4 && strcmp(argv[1], "measure") == 0)
        return measure(argv[2], atof(argv[3]) / 8e3);
    fprintf(stderr, "usage: %s serve | measure ADDRESS MBIT\n", argv[0]);
    return 2;
}
