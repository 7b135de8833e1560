// Every word people can type, as data: the parser, --help and completion are made from it.
import type { Command, Option } from './command.ts';
import { agentCommands } from './table/agents.ts';
import { approvalCommands } from './table/approvals.ts';
import { auditCommands } from './table/audit.ts';
import { modelCommands } from './table/models.ts';
import { policyCommands } from './table/policy.ts';
import { runtimeCommands } from './table/runtime.ts';
import { taskCommands } from './table/tasks.ts';

/** In the order of --help. */
export const GROUPS: readonly { title: string; commands: readonly Command[] }[] = [
  { title: 'The runtime', commands: runtimeCommands },
  { title: 'Tasks and what they leave', commands: taskCommands },
  { title: 'Agents, and talking with them', commands: agentCommands },
  { title: 'What waits for a person', commands: approvalCommands },
  { title: 'Tools and models', commands: modelCommands },
  { title: 'Policy', commands: policyCommands },
  { title: 'The audit log', commands: auditCommands },
];

export const COMMANDS: readonly Command[] = GROUPS.flatMap(({ commands }) => commands);

export const GLOBAL_OPTIONS: readonly Option[] = [
  {
    name: 'state',
    value: 'DIR',
    completes: 'directory',
    help: 'the state directory (else AGENTD_STATE, else ~/.local/state/agentd)',
  },
  {
    name: 'as',
    value: 'PERSON',
    completes: 'person',
    help: 'be this person, with their own key (agentctl person add)',
  },
  { name: 'json', help: 'one JSON document on one line; for streams one per line' },
  { name: 'help', short: 'h', help: 'what this command does and takes' },
];

/** Words that are promised and not there yet: they get an answer of their own. */
export const NOT_YET: readonly string[] = [
  'memory',
  'tool call',
  'mail',
  'board',
  'preset',
  'persona',
  'contract',
  'box',
  'node',
  'secret',
  'backup',
  'restore',
  'install',
  'uninstall',
  'tui',
  'console',
];
