/* A process' own wall clock: CLOCK_REALTIME moved by the seconds that stand in a file (8 octets, signed): in $HOST_CLOCK,
 * or in the one that host_clock_see() names later.
 *
 * Loaded with LD_PRELOAD. CLOCK_MONOTONIC and sleeping are left alone, as when a host's clock is set. (libfaketime 0.9.10
 * breaks clock_nanosleep with an absolute monotonic time, which is how Python sleeps.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

int host_clock_see(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return -1;
    ahead = page;
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HOST_CLOCK");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (path) host_clock_see(path);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_clock_gettime(clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return (time_t)-1;
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
