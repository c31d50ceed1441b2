/* Loaded into a process (LD_PRELOAD), it counts the calls that change files below FAULT_FOLDER, and lets one of them
   fail. The file FAULT_CONTROL holds three numbers that both processes see: calls so far, the call that fails (0: none),
   and how it fails. Every way fails with the call itself, so the same number is the same fault each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum way { BROKEN = 1, FULL, SHORT, KILLED, TORN };

struct control { volatile int64_t calls, failing, way; };

static struct control none;
static struct control *control = &none;
static char folder[PATH_MAX];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("FAULT_CONTROL"), *below = getenv("FAULT_FOLDER");
    int file = name && below ? REAL(open)(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED && strlen(below) < sizeof folder) {
        strcpy(folder, below);
        control = mapped;
    }
    close(file);
}

static int is_ours(const char *path)
{
    return folder[0] && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file_of_ours(int file)
{
    char link[64], path[PATH_MAX];
    if (!folder[0])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Returns how the call that begins now fails, or 0. A killed process does not return. */
static enum way count(void)
{
    if (__sync_add_and_fetch(&control->calls, 1) != control->failing)
        return 0;
    if (control->way == KILLED)
        _exit(137);
    return control->way;
}

static int fails(void)
{
    enum way way = count();
    if (way == TORN)
        _exit(137);
    errno = way == FULL ? ENOSPC : EIO;
    return way == BROKEN || way == FULL;
}

/* Returns how many bytes of a write are to be done, -1 if it fails. After a torn one the process is killed. */
static ssize_t part(size_t size, enum way way)
{
    errno = way == FULL ? ENOSPC : EIO;
    return way == BROKEN || way == FULL ? -1 : way == SHORT || way == TORN ? (ssize_t)(size + 1) / 2 : (ssize_t)size;
}

static ssize_t done(ssize_t written, enum way way)
{
    if (way == TORN)
        _exit(137);
    return written;
}

#define WRITING(name, size, arguments, partly)                                                                         \
    if (!is_file_of_ours(file))                                                                                        \
        return REAL(name) arguments;                                                                                   \
    enum way way = count();                                                                                            \
    ssize_t some = part(size, way);                                                                                    \
    return some < 0 ? -1 : done(REAL(name) partly, way);

ssize_t write(int file, const void *data, size_t size)
{
    WRITING(write, size, (file, data, size), (file, data, some))
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    WRITING(pwrite, size, (file, data, size, at), (file, data, some, at))
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    WRITING(pwrite64, size, (file, data, size, at), (file, data, some, at))
}

ssize_t sendfile64(int file, int from, off64_t *at, size_t size)
{
    WRITING(sendfile64, size, (file, from, at, size), (file, from, at, some))
}

ssize_t sendfile(int file, int from, off_t *at, size_t size)
{
    WRITING(sendfile, size, (file, from, at, size), (file, from, at, some))
}

ssize_t copy_file_range(int from, off64_t *in, int file, off64_t *out, size_t size, unsigned flags)
{
    WRITING(copy_file_range, size, (from, in, file, out, size, flags), (from, in, file, out, some, flags))
}

#define CHANGING(name, ours, arguments) return (ours) && fails() ? -1 : REAL(name) arguments;

int fsync(int file) { CHANGING(fsync, is_file_of_ours(file), (file)) }
int fdatasync(int file) { CHANGING(fdatasync, is_file_of_ours(file), (file)) }
int ftruncate(int file, off_t size) { CHANGING(ftruncate, is_file_of_ours(file), (file, size)) }
int ftruncate64(int file, off64_t size) { CHANGING(ftruncate64, is_file_of_ours(file), (file, size)) }
int rename(const char *old, const char *new) { CHANGING(rename, is_ours(new), (old, new)) }
int unlink(const char *path) { CHANGING(unlink, is_ours(path), (path)) }
int mkdir(const char *path, mode_t mode) { CHANGING(mkdir, is_ours(path), (path, mode)) }
int link(const char *old, const char *new) { CHANGING(link, is_ours(new), (old, new)) }

/* Only what may write is counted: a process opens many files to read them before it does anything. */
#define OPENING(name, first, ...)                                                                                      \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                                            \
    va_end(list);                                                                                                      \
    if ((flags & O_ACCMODE) != O_RDONLY && is_ours(path) && fails())                                                   \
        return -1;                                                                                                     \
    return REAL(name)(first path, flags, mode);

#define NOTHING
#define AT place,

int open(const char *path, int flags, ...) { OPENING(open, NOTHING) }
int open64(const char *path, int flags, ...) { OPENING(open64, NOTHING) }
int openat(int place, const char *path, int flags, ...) { OPENING(openat, AT) }
int openat64(int place, const char *path, int flags, ...) { OPENING(openat64, AT) }
