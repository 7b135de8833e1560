// What this version does not protect against, in plain words. A line goes away when the code that
// makes it untrue is there, not before.
import { userInfo } from 'node:os';

export function notProtected(stateDir: string): string[] {
  const user = userName();
  return [
    `Runners are plain child processes of the Linux user ${user}: there is no sandbox yet. ` +
      `A runner that is taken over can read, write and ptrace whatever ${user} can, the key in ` +
      `${stateDir} included.`,
    'What manifests say under filesystem, network, resources and linuxUser is checked and ' +
      'recorded, but nothing enforces it yet. Which tools an agent may call is enforced, by toold.',
    'There are no approvals yet: a tool that is allowed is allowed without asking a person.',
    'Every process of this user can connect to the sockets of running tasks.',
    `The key that signs the audit log is in ${stateDir}. Whoever can read it can rewrite the log ` +
      'and sign it again; a checkpoint kept on another machine shows that: ' +
      'agentctl audit checkpoint.',
    'State on disk is not encrypted.',
  ];
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 0}`;
  }
}
