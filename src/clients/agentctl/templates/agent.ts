// The manifest that `agent init` writes.
export const agentTemplate = (
  name: string,
): string => `# An agent: what it is for, and what it may do. All keys: docs/manifest.md
apiVersion: agentd/v1
kind: Agent
metadata:
  name: ${name}
  description: One sentence, which colleagues and people see in lists.
spec:
  model: default # a name of: agentctl model list

  # The first part of its prompt. It says how to work; rights come from the keys below.
  persona: |
    You are ${name}. You do one thing well: say here which.

    Read what is there before you change it. Make the smallest change that does the whole job, and
    check it. If the request is ambiguous and the choice matters, ask. Finish with what you did, how
    you checked it, and what is left.

  # Capabilities, or tools by name: agentctl tool list. Everything else is denied.
  tools:
    allow:
      - file.read
      # - file.write_workspace   # write files of the task's workspace
      # - git.read
      # - git.write_branch       # commit, on branches
      # - tests.run              # run the project's tests
      # - shell.exec             # run any program in its box
      # - task.delegate          # give parts to the agents of team.delegateTo
    deny:
      - secrets.read

  # Directories of this machine, in addition to its workspace and home.
  # filesystem:
  #   read: [/srv/docs]

  # Hosts it may reach. Without this key it reaches none.
  # network:
  #   mode: allowlist
  #   allow: [api.example.com]

  # Limits of one task. A call that does not fit is refused before it is made.
  limits:
    maxSteps: 40
    maxCostUsd: 2

  # Budget of one day, for all tasks together.
  budget:
    costUsdPerDay: 20
`;
