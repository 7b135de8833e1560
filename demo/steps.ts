// The headings of the demo's steps, in order. tools/record-demo.ts finds the steps by them, and
// `make check` compares them with the recording in docs/demo.svg.
export const STEPS = {
  slow: '1. An order service on this machine became slow with its last deploy.',
  team: '2. Start a runtime and a team of five agents. No API key, no network.',
  task: '3. Give the planner one task.',
  approval: '4. The deploy needs approval. No process runs while it waits. This is the request:',
  resumed: '5. The task resumes.',
  timeline: '6. What everyone did, from the records.',
  blocked: '7. What was blocked on the way, by which rule or by which kernel mechanism.',
  again: '8. A person vouches for the cause. Another deploy, slow again: the team remembers.',
  proof: '9. The proof: a copy of the log verifies offline, against a checkpoint kept elsewhere.',
} as const;
