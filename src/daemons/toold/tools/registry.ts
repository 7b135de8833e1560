// Lists all tools. A tool that is not listed here cannot be called.
import type { Clock } from '../../../platform/clock.ts';
import { artifactTools } from './artifacts.ts';
import { emailTools, type MaildClient } from './email.ts';
import { fileTools } from './files.ts';
import { gitTools } from './git.ts';
import { type FetchClient, httpTools } from './http.ts';
import { logTools } from './logs.ts';
import { type MemorydClient, memoryTools } from './memory.ts';
import { messageTools } from './messages.ts';
import { networkTools, type OpenHost } from './network.ts';
import { packageTools } from './packages.ts';
import { proposalTools } from './proposals.ts';
import { shellTools, type TestCommands } from './shell.ts';
import { taskTools } from './tasks.ts';
import { teamTools } from './team.ts';
import { type AppendLine, testTools } from './test-tools.ts';
import type { AgentdClient, Tool } from './tool.ts';
import { waitTools } from './waits.ts';

export type Registry = {
  get(name: string): Tool | undefined;
  list(): readonly Tool[];
  /** The names of built-in tools, which declared tools cannot use. */
  own: ReadonlySet<string>;
};

export function makeRegistry(options: {
  agentd: AgentdClient;
  memoryd: MemorydClient;
  maild: MaildClient;
  /** Opens the run's egress before each use. */
  egressd: FetchClient;
  openHost: OpenHost;
  clock: Clock;
  tests: TestCommands;
  /** The current declared tools. */
  declared: () => readonly Tool[];
  /** Set only where test tools are enabled. */
  appendLine: AppendLine | undefined;
}): Registry {
  const { agentd, memoryd, egressd, clock, appendLine, declared } = options;
  const tools = [
    ...taskTools(agentd),
    ...messageTools(agentd),
    ...emailTools({ agentd, maild: options.maild }),
    ...artifactTools(agentd),
    ...teamTools(agentd),
    ...proposalTools(agentd),
    ...waitTools(agentd),
    ...memoryTools({ agentd, memoryd }),
    ...packageTools(agentd),
    ...fileTools(),
    ...gitTools(),
    ...httpTools(egressd),
    ...networkTools(options.openHost),
    ...logTools(),
    ...shellTools({ tests: options.tests }),
    ...(appendLine === undefined ? [] : testTools({ clock, appendLine })),
  ];
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  if (byName.size !== tools.length) throw new Error('two tools have the same name');
  return {
    get: (name) => byName.get(name) ?? declared().find((tool) => tool.name === name),
    list: () => [...tools, ...declared()],
    own: new Set(byName.keys()),
  };
}
