// The list of every tool there is. A tool that is not here cannot be called.
import type { Clock } from '../../../platform/clock.ts';
import { artifactTools } from './artifacts.ts';
import { messageTools } from './messages.ts';
import { taskTools } from './tasks.ts';
import { type AppendLine, testTools } from './test-tools.ts';
import type { AgentdClient, Tool } from './tool.ts';
import { waitTools } from './waits.ts';

export type Registry = { get(name: string): Tool | undefined; list(): readonly Tool[] };

export function makeRegistry(options: {
  agentd: AgentdClient;
  clock: Clock;
  /** Given only where test tools are wanted. */
  appendLine: AppendLine | undefined;
}): Registry {
  const { agentd, clock, appendLine } = options;
  const tools = [
    ...taskTools(agentd),
    ...messageTools(agentd),
    ...artifactTools(agentd),
    ...waitTools(agentd),
    ...(appendLine === undefined ? [] : testTools({ clock, appendLine })),
  ];
  const byName = new Map(tools.map((one) => [one.name, one]));
  if (byName.size !== tools.length) throw new Error('two tools have the same name');
  return { get: (name) => byName.get(name), list: () => tools };
}
