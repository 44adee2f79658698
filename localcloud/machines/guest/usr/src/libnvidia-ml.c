/* Stands in for NVIDIA's libnvidia-ml.so.1. Its GPUs are as busy as the processes of people (uid 1000 and above) keep the
 * processors: each second of a processor counts as a second of one GPU, spread over all of them.
 *
 * Signatures, fields and numbers are those of nvidia-ml-py 13.615.71, pynvml.py; idle values are those of nvidia-smi's stand-in.
 */
#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };
typedef struct { unsigned int index; } gpu_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    unsigned int field, scope;
    int64_t timestamp, latency;
    unsigned int type, code;
    union { double number; unsigned long long whole; } value;
} field_t;

static gpu_t gpus[64];
static unsigned int count;
static unsigned long long memory_bytes;
static unsigned int percent; /* since the last look, at most one a second */
static double last_cpu_s = -1, last_time_s, moved_kib;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double fact(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found && (found = strchr(found, ':')) ? strtod(found + 1, NULL) : 0;
}

/* The CPU time of people's processes that live, and of their children that have ended: proc_pid_stat(5). */
static double cpu_s(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    double ticks = 0;
    while (folder && (entry = readdir(folder))) {
        char path[300], text[1024], *rest;
        struct stat owner;
        unsigned long times[4];
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        if (stat(path, &owner) || owner.st_uid < 1000 || owner.st_uid >= 60000) continue;
        FILE *file = fopen(path, "r");
        if (!file) continue;
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        if ((rest = strrchr(text, ')')) && sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                                                  &times[0], &times[1], &times[2], &times[3]) == 4)
            ticks += times[0] + times[1] + times[2] + times[3];
    }
    if (folder) closedir(folder);
    return ticks / sysconf(_SC_CLK_TCK);
}

static void look(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double time_s = now.tv_sec + now.tv_nsec / 1e9;
    pthread_mutex_lock(&lock);
    if (last_cpu_s < 0 || time_s - last_time_s >= 1) {
        double used_s = cpu_s(), busy = 100 * (used_s - last_cpu_s) / (time_s - last_time_s) / count;
        percent = last_cpu_s < 0 || busy < 0 ? 0 : busy > 100 ? 100 : (unsigned int)busy;
        moved_kib += percent * 1024.0;
        last_cpu_s = used_s;
        last_time_s = time_s;
    }
    pthread_mutex_unlock(&lock);
}

int nvmlInit_v2(void)
{
    static char text[4096];
    FILE *file = fopen("/run/localcloud/hardware.json", "r");
    if (!file) return 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    count = (unsigned int)fact(text, "\"gpus\"");
    memory_bytes = (unsigned long long)(fact(text, "\"gpu_memory_mib\"") * 1048576);
    if (count > 64) count = 64;
    for (unsigned int number = 0; number < count; number++) gpus[number].index = number;
    return count ? SUCCESS : 9;
}

int nvmlDeviceGetCount_v2(unsigned int *found) { *found = count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, gpu_t **gpu)
{
    if (index >= count) return INVALID_ARGUMENT;
    *gpu = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(gpu_t *gpu, unsigned int *minor) { *minor = gpu->index; return SUCCESS; }

int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *found)
{
    (void)gpu;
    look();
    found->gpu = percent;
    found->memory = percent / 2;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *found)
{
    (void)gpu;
    found->total = memory_bytes;
    found->used = percent ? memory_bytes / 2 : 0;
    found->free = found->total - found->used;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned int *milliwatts) { (void)gpu; *milliwatts = 25000 + 3750 * percent; return SUCCESS; }

int nvmlDeviceGetClockInfo(gpu_t *gpu, int clock, unsigned int *mhz)
{
    (void)gpu;
    if (clock != 1) return NOT_SUPPORTED;
    *mhz = percent ? 1410 : 210;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(gpu_t *gpu, int sensor, unsigned int *celsius)
{
    (void)gpu;
    (void)sensor;
    *celsius = 30 + percent / 3;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(gpu_t *gpu, unsigned long long *bits) { (void)gpu; *bits = percent ? 0 : 1; return SUCCESS; }

int nvmlDeviceGetFieldValues(gpu_t *gpu, int number, field_t *fields)
{
    (void)gpu;
    for (int each = 0; each < number; each++) {
        fields[each].code = fields[each].field == 138 || fields[each].field == 139 ? SUCCESS : NOT_SUPPORTED;
        fields[each].type = 3;
        fields[each].value.whole = (unsigned long long)moved_kib;
    }
    return SUCCESS;
}
