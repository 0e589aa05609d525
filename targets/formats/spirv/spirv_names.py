"""SPIR-V's names of the capabilities that compute kernels meet, by their numbers in the specification's grammar."""

from __future__ import annotations

_NAMED = """
    0:Matrix 1:Shader 4:Addresses 5:Linkage 6:Kernel 7:Vector16 9:Float16 10:Float64 11:Int64 12:Int64Atomics
    22:Int16 27:StorageImageMultisample 28:UniformBufferArrayDynamicIndexing 30:StorageBufferArrayDynamicIndexing
    38:GenericPointer 39:Int8 49:StorageImageExtendedFormats 50:ImageQuery 55:StorageImageReadWithoutFormat
    56:StorageImageWriteWithoutFormat 61:GroupNonUniform 62:GroupNonUniformVote 63:GroupNonUniformArithmetic
    64:GroupNonUniformBallot 65:GroupNonUniformShuffle 66:GroupNonUniformShuffleRelative 67:GroupNonUniformClustered
    68:GroupNonUniformQuad 4423:SubgroupBallotKHR 4428:WorkgroupMemoryExplicitLayoutKHR
    4429:WorkgroupMemoryExplicitLayout8BitAccessKHR 4430:WorkgroupMemoryExplicitLayout16BitAccessKHR
    4431:SubgroupVoteKHR 4433:StorageBuffer16BitAccess 4434:UniformAndStorageBuffer16BitAccess
    4435:StoragePushConstant16 4436:StorageInputOutput16 4437:DeviceGroup 4441:VariablePointersStorageBuffer
    4442:VariablePointers 4448:StorageBuffer8BitAccess 4449:UniformAndStorageBuffer8BitAccess
    4450:StoragePushConstant8 4464:DenormPreserve 4465:DenormFlushToZero 4466:SignedZeroInfNanPreserve
    4467:RoundingModeRTE 4468:RoundingModeRTZ 4473:UntypedPointersKHR 5055:ShaderClockKHR 5116:BFloat16TypeKHR
    5117:BFloat16DotProductKHR 5118:BFloat16CooperativeMatrixKHR 5301:ShaderNonUniform 5302:RuntimeDescriptorArray
    5345:VulkanMemoryModel 5346:VulkanMemoryModelDeviceScope 5347:PhysicalStorageBufferAddresses
    5357:CooperativeMatrixNV 5612:AtomicFloat32MinMaxEXT 5613:AtomicFloat64MinMaxEXT 5616:AtomicFloat16MinMaxEXT
    5629:ExpectAssumeKHR 6016:DotProductInputAll 6017:DotProductInput4x8Bit 6018:DotProductInput4x8BitPacked
    6019:DotProduct 6022:CooperativeMatrixKHR 6024:ReplicatedCompositesEXT 6025:BitInstructions
    6026:GroupNonUniformRotateKHR 6029:FloatControls2 6033:AtomicFloat32AddEXT 6034:AtomicFloat64AddEXT
    6095:AtomicFloat16AddEXT
"""
_CAPABILITIES = dict(each.split(":") for each in _NAMED.split())


def capability(number: int) -> str:
    """SPIR-V's name of a capability; one that is not known here is called by its number."""
    return _CAPABILITIES.get(str(number), f"capability {number}")


def capabilities() -> frozenset[str]:
    """The names of all capabilities that are known here."""
    return frozenset(_CAPABILITIES.values())
