// What a workgroup's threads compute together.
#extension GL_GOOGLE_include_directive : require

const uint THREADS = 64;
layout(local_size_x = 64) in;

shared float parts[THREADS];
uint thread() { return gl_LocalInvocationID.x; }

// The sum of all threads' numbers, for each of them.
float summed(float own) {
  parts[thread()] = own;
  for (uint half_ = THREADS / 2; half_ > 0; half_ /= 2) {
    barrier();
    if (thread() < half_) parts[thread()] += parts[thread() + half_];
  }
  barrier();
  float found = parts[0];
  barrier();
  return found;
}

// The greatest of all threads' numbers. NaN if one of them is.
float greatest(float own) {
  parts[thread()] = own;
  for (uint half_ = THREADS / 2; half_ > 0; half_ /= 2) {
    barrier();
    if (thread() < half_) {
      float other = parts[thread() + half_];
      if (other > parts[thread()] || isnan(other)) parts[thread()] = other;
    }
  }
  barrier();
  float found = parts[0];
  barrier();
  return found;
}
