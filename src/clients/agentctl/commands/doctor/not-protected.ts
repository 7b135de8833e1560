// What this version does not protect against, in plain words. A line goes away when the code that
// makes it untrue is there, not before.
import type { FeaturesView } from '../../../../wire/sandboxd.ts';
import { formatUser } from '../../user-name.ts';

export function listUnprotected(stateDir: string, sandboxes: FeaturesView | undefined): string[] {
  const user = formatUser(process.getuid?.() ?? 0);
  return [
    ...listBoxGaps(user, sandboxes),
    process.getuid?.() === 0
      ? 'The daemons share one user without rights: whoever takes one of them over has what the ' +
        `others have, ${stateDir} with its keys, and can ask the warden, which is root, for boxes ` +
        'within its bounds.'
      : `The daemons run as ${user}: any process of ${user} outside a box can read ${stateDir}, its ` +
        'keys included, and connect to the sockets of running tasks.',
    'Text that lies below paths which a manifest lets an agent read does not mark the run that ' +
      'reads it. A host that an agent may reach can be told anything it may read.',
    `Whoever can read ${stateDir}/operator.key can approve what agents ask for, under any name that ` +
      'has no key of its own; whoever can read a key in people/ is that person.',
    `The key that signs the audit log is in ${stateDir}. Whoever can read it can rewrite the log ` +
      'and sign it again; a checkpoint kept on another machine shows that: ' +
      'agentctl audit checkpoint.',
    'State on disk is not encrypted.',
  ];
}

function listBoxGaps(user: string, sandboxes: FeaturesView | undefined): string[] {
  if (sandboxes === undefined) return [];
  const lacks = (name: string) => sandboxes.features.some((f) => f.name === name && !f.works);
  return [
    ...(sandboxes.identity === 'single'
      ? [
          `All agents run as the Linux user ${user}: what keeps them apart is namespaces, Landlock ` +
            'and seccomp, not the user.',
        ]
      : []),
    ...(sandboxes.runner_level === 'L1'
      ? [
          "Runners have L1: they share the host's tree, process list and network namespace; Landlock " +
            'and seccomp refuse what they may not have there.',
        ]
      : []),
    ...(lacks('memory') || lacks('pids')
      ? [
          'No cgroup holds the boxes: their memory and processes are counted ten times a second, so ' +
            'a box can go over its limits for a moment.',
        ]
      : []),
    ...(lacks('quota')
      ? [
          'No cgroup holds a share of the processors: resources.cpu of a manifest is not held here, ' +
            'only processor time and the time on the clock are.',
        ]
      : []),
  ];
}
