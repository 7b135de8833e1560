// The command table: the parser, --help and completion are generated from it.
import type { Command, Option } from './command.ts';
import { agentCommands } from './table/agents.ts';
import { approvalCommands } from './table/approvals.ts';
import { auditCommands } from './table/audit.ts';
import { backupCommands } from './table/backup.ts';
import { boxCommands } from './table/boxes.ts';
import { changeCommands } from './table/changes.ts';
import { keyCommands } from './table/keys.ts';
import { modelCommands } from './table/models.ts';
import { policyCommands } from './table/policy.ts';
import { runtimeCommands } from './table/runtime.ts';
import { taskCommands } from './table/tasks.ts';
import { workspaceCommands } from './table/workspaces.ts';

/** In the order of --help. */
export const GROUPS: readonly { title: string; commands: readonly Command[] }[] = [
  { title: 'Runtime', commands: runtimeCommands },
  { title: 'Tasks and artifacts', commands: taskCommands },
  { title: 'Programs in a box', commands: boxCommands },
  { title: 'Changes in your directory', commands: changeCommands },
  { title: 'Workspaces', commands: workspaceCommands },
  { title: 'Agents and messages', commands: agentCommands },
  { title: 'Approvals and people', commands: approvalCommands },
  { title: 'Tools and models', commands: modelCommands },
  { title: 'API keys', commands: keyCommands },
  { title: 'Policy', commands: policyCommands },
  { title: 'Audit log', commands: auditCommands },
  { title: 'Backups', commands: backupCommands },
];

export const COMMANDS: readonly Command[] = GROUPS.flatMap(({ commands }) => commands);

export const GLOBAL_OPTIONS: readonly Option[] = [
  {
    name: 'state',
    value: 'DIR',
    completes: 'directory',
    help: 'state directory (default: AGENTD_STATE, else ~/.local/state/agentd)',
  },
  {
    name: 'as',
    value: 'PERSON',
    completes: 'person',
    help: 'act as this person, with their own key (agentctl person add)',
  },
  { name: 'json', help: 'print one JSON document on one line; for streams, one per line' },
  { name: 'help', short: 'h', help: 'show this help' },
];

/** Planned commands: typing one says that it is not in this version. */
export const NOT_YET: readonly string[] = [
  'memory',
  'tool call',
  'mail',
  'board',
  'preset',
  'persona',
  'contract',
  'node',
  'secret',
  'install',
  'uninstall',
  'tui',
  'console',
];
