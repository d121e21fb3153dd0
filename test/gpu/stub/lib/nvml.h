// The part of NVML's interface that the stub has, by NVIDIA's names and layouts.
typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
// What driver 535 wrote for a while where nvmlProcessInfo_t was expected.
typedef struct {
	nvmlProcessInfo_t info;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessInfo_wrong_t;
typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
typedef struct {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	int valueType;
	nvmlReturn_t nvmlReturn;
	union {
		unsigned int uiVal;
		unsigned long long ullVal;
	} value;
} nvmlFieldValue_t;
typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
typedef struct {
	unsigned int version, value;
} nvmlDeviceAddressingMode_t;
enum { nvmlEventTypeXidCriticalError = 0x8, nvmlEventTypeGpuUnavailableError = 0x4000, nvmlEventTypeGpuRecoveryAction = 0x8000 };
