// The manifest of the source document (§9), word for word: it must load unchanged.

export const EXAMPLE_MANIFEST = `apiVersion: agentd/v1
kind: Agent
metadata:
  name: coder
spec:
  linuxUser: agent-coder
  model: coder-large
  replicas: 2
  memory:
    scope: project
    read:
      - project:app
    write:
      - project:app/coder
  tools:
    allow:
      - git.read
      - git.write_branch
      - tests.run
      - file.read
      - file.write_workspace
    deny:
      - secrets.read
      - prod.deploy
      - email.send_external
  filesystem:
    read:
      - /srv/repos/app
      - /srv/docs
    write:
      - /srv/workspaces/app
    deny:
      - /etc
      - /home
      - /srv/prod
  network:
    mode: restricted
    allow:
      - github.com
      - internal-registry.local
  resources:
    cpu: 2
    memory: 4G
    pids: 256
  approvals:
    required:
      - delete.recursive
      - network.external
      - production.change
`;
