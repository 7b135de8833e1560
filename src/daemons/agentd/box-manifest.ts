// The manifest of the agent whose name programs run under when nobody names another. It is written
// to the directory of manifests when it is first needed, and belongs to the operator from then on.
import { BOX_AGENT } from '../../wire/agentd.ts';

export const BOX_MANIFEST = `# For programs that people start: agentctl box run.
apiVersion: agentd/v1
kind: Agent
metadata:
  name: ${BOX_AGENT}
  description: Programs that people run in a box.
spec:
  model: default
  # They decide which files the box has. No tool can be called from inside.
  tools:
    allow:
      - file.read
      - file.write_workspace
      - git.read
      - git.write_branch
      - tests.run
  # Hosts are given for each run: agentctl box run --allow-host.
  network:
    mode: none
`;
