// The declaration that `tool init` writes.
export const toolTemplate = (
  name: string,
): string => `# A program as a tool of agents. All keys: docs/command-tools.md
name: ${name} # the capability that grants it, too: tools: { allow: [${name}] }
description: One sentence that tells the model what it does and when to use it.

# The command, argument by argument, without a shell. {input} is filled in, never as an option.
argv:
  - /usr/bin/wc
  - -w
  - --
  - '{file}'
input:
  file: { type: string, pattern: '[A-Za-z0-9._/-]+', description: a file of the workspace }
output: { format: text }

# box: in the agent's box, with its files. host: in a sandbox of its own, with read and write below.
place: box

# Its effect on the world decides who has to be asked.
risk: low # low, medium or high
reversibility: read-only # read-only, reversible, externally-reversible or irreversible
idempotent: true # after a crash: true repeats it, false asks a person whether it happened
# approval: required # every call waits for a person
timeout_s: 60
`;
