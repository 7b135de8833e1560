// What was refused during the task, from the record: by the broker's rules, by egressd, and by the
// kernel, whose refusals are in what the command printed.
import { agentctl, show } from './console.ts';

type Event = {
  event: string;
  agent?: string;
  tool?: string;
  call_id?: string;
  policy?: string;
  data?: Record<string, unknown>;
};

/** What a command prints, and the layer that made it print that. */
const KERNEL: readonly [RegExp, string][] = [
  [/shadow: (No such file|Permission denied)/, 'mount namespace: /etc/shadow is not in the box'],
  [/id_ed25519: (No such file|Permission denied)/, 'mount namespace: no home but its own'],
  [
    /Failed to connect to 203|Network is unreachable|Couldn't connect/,
    'network namespace: no way out but the proxy',
  ],
  [
    /Read-only file system|cannot create .*access\.log/,
    'read-only bind: the log can be read, not changed',
  ],
];

const ask = <T>(...args: string[]): T =>
  JSON.parse(agentctl([...args, '--json'], { captures: true, quiet: true })) as T;

/** Of the task and all its parts. */
export function tellRefusals(rootId: string): void {
  const { tasks } = ask<{ tasks: { id: string; root_task_id: string }[] }>('task', 'list');
  const parts = tasks.filter((task) => task.root_task_id === rootId);
  for (const { id } of parts.toReversed()) {
    const { events } = ask<{ events: Event[] }>('audit', 'task', id);
    for (const event of events) tellOne(event);
  }
}

function tellOne({ event, agent, tool, policy, data, call_id: callId }: Event): void {
  if (event === 'tool.call.denied') show(`   ${agent} · ${tool} · refused by policy: ${policy}`);
  if (event === 'network.denied')
    show(`   ${agent} · ${data?.host}:${data?.port} · refused by egressd: ${data?.reason}`);
  if (event === 'run.marked')
    show(
      `   ${agent} · marked by ${data?.why}: from now on it sends nothing out, and does nothing for good, without a person`,
    );
  if (event !== 'tool.call.ended' || tool !== 'shell.exec') return;
  const call = JSON.stringify(ask('tool', 'show', callId!));
  for (const [printed, layer] of KERNEL)
    if (printed.test(call)) show(`   ${agent} · ${tool} · refused by the kernel, ${layer}`);
}
