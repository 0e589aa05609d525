// Stands in for ROCm's header of this name.
#include "../opsplice_hip.h"
