// How Node is started for the runtime's own processes: they live long and mostly wait, so that
// memory counts for more than the last few percent of speed.

export const NODE_FLAGS: readonly string[] = ['--max-semi-space-size=2'];
