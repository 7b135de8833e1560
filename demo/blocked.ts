// Prints what was blocked during the task, from the audit log: by policy, by egressd, and by the
// kernel, whose errors are in the output of the commands.
import { agentctl, print } from './console.ts';

type AuditEvent = {
  event: string;
  agent?: string;
  tool?: string;
  call_id?: string;
  policy?: string;
  data?: Record<string, unknown>;
};

/** Errors that commands print, and the kernel mechanism behind each. */
const KERNEL_ERRORS: readonly [RegExp, string][] = [
  [/shadow: (No such file|Permission denied)/, 'mount namespace: /etc/shadow is not in the box'],
  [/id_ed25519: (No such file|Permission denied)/, 'mount namespace: only its own home directory'],
  [
    /Failed to connect to 203|Network is unreachable|Couldn't connect/,
    'network namespace: the proxy is the only way out',
  ],
  [
    /Read-only file system|cannot create .*access\.log/,
    'read-only bind mount: the log cannot be changed',
  ],
];

const query = <T>(...args: string[]): T =>
  JSON.parse(agentctl([...args, '--json'], { capturesOutput: true, isQuiet: true })) as T;

/** Covers the task and all its subtasks. */
export function printBlocked(rootId: string): void {
  const { tasks } = query<{ tasks: { id: string; root_task_id: string }[] }>('task', 'list');
  const tree = tasks.filter((task) => task.root_task_id === rootId);
  for (const { id } of tree.toReversed()) {
    const { events } = query<{ events: AuditEvent[] }>('audit', 'task', id);
    for (const event of events) printEvent(event);
  }
}

function printEvent({ event, agent, tool, policy, data, call_id: callId }: AuditEvent): void {
  if (event === 'tool.call.denied') print(`   ${agent} · ${tool} · denied by policy: ${policy}`);
  if (event === 'network.denied')
    print(`   ${agent} · ${data?.host}:${data?.port} · denied by egressd: ${data?.reason}`);
  if (event === 'run.marked')
    print(
      `   ${agent} · marked by ${data?.why}: sending data out, and what cannot be undone, now needs approval`,
    );
  if (event !== 'tool.call.ended' || tool !== 'shell.exec') return;
  const call = JSON.stringify(query('tool', 'show', callId!));
  for (const [pattern, mechanism] of KERNEL_ERRORS)
    if (pattern.test(call)) print(`   ${agent} · ${tool} · blocked by the kernel, ${mechanism}`);
}
