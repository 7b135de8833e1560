// Lists what this version does not protect against. An entry is removed together with the change
// that makes it untrue.
import type { FeaturesView } from '../../../../wire/sandboxd.ts';
import { formatUser } from '../../user-name.ts';

export function listUnprotected(stateDir: string, sandboxes: FeaturesView | undefined): string[] {
  const user = formatUser(process.getuid?.() ?? 0);
  return [
    ...listBoxGaps(user, sandboxes),
    process.getuid?.() === 0
      ? 'The daemons share one unprivileged user: an attacker who controls one of them gets the access ' +
        `of all, including ${stateDir} and its keys, and can request boxes from the warden, which is ` +
        'root, within its limits.'
      : `The daemons run as ${user}: any process of ${user} outside a box can read ${stateDir}, including ` +
        'its keys, and connect to the sockets of running tasks.',
    'Files under paths granted by a manifest do not mark the run that reads them, whatever they ' +
      'contain. An agent can send anything it may read to any host it may reach.',
    `Any user who can read ${stateDir}/operator.key can approve requests under any name that has no ` +
      'key of its own; a user who can read a key in people/ can act as that person.',
    `The key that signs the audit log is in ${stateDir}. A user who can read it can rewrite and ` +
      're-sign the log; only a checkpoint stored on another machine detects that: ' +
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
          `All agents run as the Linux user ${user}: namespaces, Landlock and seccomp separate ` +
            'them, not the user.',
        ]
      : []),
    ...(lacks('memory') || lacks('pids')
      ? [
          'No cgroup limits the boxes: their memory and processes are counted ten times a second, so ' +
            'a box can briefly exceed its limits.',
        ]
      : []),
    ...(lacks('quota')
      ? [
          'No cgroup limits CPU shares: resources.cpu in a manifest is not enforced here, only CPU ' +
            'time and elapsed time are.',
        ]
      : []),
  ];
}
