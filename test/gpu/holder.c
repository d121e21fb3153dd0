// Holds memory of a GPU until it is killed: holder INDEX MIB PINNED. It needs NVIDIA's driver, and no CUDA toolkit. It
// prints "holding" once it does. PINNED MiB of the machine's memory are pinned too: giving those back is what takes long.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *library;

static void *function(const char *name) {
	void *f = dlsym(library, name);
	if (!f) fprintf(stderr, "holder: libcuda lacks %s\n", name), exit(1);
	return f;
}

static void check(const char *what, int code) {
	if (code) fprintf(stderr, "holder: %s: CUDA error %d\n", what, code), exit(1);
}

int main(int argc, char **argv) {
	if (argc != 4) return fprintf(stderr, "usage: holder INDEX MIB PINNED\n"), 2;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!library) return fprintf(stderr, "holder: %s\n", dlerror()), 1;
	int (*init)(unsigned) = function("cuInit");
	int (*get)(int *, int) = function("cuDeviceGet");
	int (*create)(void **, unsigned, int) = function("cuCtxCreate_v2");
	int (*alloc)(unsigned long long *, size_t) = function("cuMemAlloc_v2");
	int (*pin)(void **, size_t) = function("cuMemAllocHost_v2");
	int device;
	void *context, *host;
	unsigned long long memory;
	check("cuInit", init(0));
	check("cuDeviceGet", get(&device, atoi(argv[1])));
	check("cuCtxCreate", create(&context, 0, device));
	check("cuMemAlloc", alloc(&memory, (size_t)atoi(argv[2]) << 20));
	if (atoi(argv[3])) check("cuMemAllocHost", pin(&host, (size_t)atoi(argv[3]) << 20));
	puts("holding");
	fflush(stdout);
	for (;;) pause();
}
