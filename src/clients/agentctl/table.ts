// The command table: the parser, --help and completion are generated from it.
import type { Command, Option } from './command.ts';
import { agentCommands } from './table/agents.ts';
import { approvalCommands } from './table/approvals.ts';
import { auditCommands } from './table/audit.ts';
import { backupCommands } from './table/backup.ts';
import { boardCommands } from './table/board.ts';
import { boxCommands } from './table/boxes.ts';
import { changeCommands } from './table/changes.ts';
import { keyCommands } from './table/keys.ts';
import { mailCommands } from './table/mail.ts';
import { memoryCommands } from './table/memory.ts';
import { modelCommands } from './table/models.ts';
import { personaCommands } from './table/personas.ts';
import { policyCommands } from './table/policy.ts';
import { presetCommands } from './table/presets.ts';
import { runtimeCommands } from './table/runtime.ts';
import { skillCommands } from './table/skills.ts';
import { taskCommands } from './table/tasks.ts';
import { workspaceCommands } from './table/workspaces.ts';

/** In the order of --help. */
export const GROUPS: readonly { title: string; commands: readonly Command[] }[] = [
  { title: 'Runtime', commands: runtimeCommands },
  { title: 'Tasks and artifacts', commands: taskCommands },
  { title: 'Board', commands: boardCommands },
  { title: 'Presets', commands: presetCommands },
  { title: 'Programs in a box', commands: boxCommands },
  { title: 'Changes in your directory', commands: changeCommands },
  { title: 'Workspaces', commands: workspaceCommands },
  { title: 'Agents and messages', commands: agentCommands },
  { title: 'Personas and skills', commands: [...personaCommands, ...skillCommands] },
  { title: 'Mail', commands: mailCommands },
  { title: 'Approvals and people', commands: approvalCommands },
  { title: 'Memory', commands: memoryCommands },
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
  'tool call',
  'contract',
  'node',
  'secret',
  'install',
  'uninstall',
  'tui',
  'console',
];

/** Names that other programs use, and the command for each. */
export const OTHER_NAMES: Readonly<Record<string, string>> = {
  ps: 'task list',
  ls: 'task list',
  top: 'status',
  info: 'status',
  start: 'up',
  init: 'agent init NAME',
  serve: 'up --port N',
  shutdown: 'down',
  quit: 'down',
  kill: 'halt, or: agentctl task cancel ID',
  create: 'task create "what you want done"',
  chat: 'task create "what you want done" --wait',
  new: 'task create "what you want done"',
  show: 'task show ID',
  watch: 'task watch ID',
  attach: 'task watch ID',
  wait: 'task watch ID',
  result: 'task show ID',
  history: 'task list',
  delete: 'prune --task ID, or: agentctl agent remove NAME',
  remove: 'prune --task ID, or: agentctl agent remove NAME',
  rm: 'prune --task ID, or: agentctl agent remove NAME',
  shell: 'box run -- bash',
  login: 'model add --help, which asks for the key of a provider',
  deny: 'reject ID',
  allow: 'approve ID',
  cancel: 'task cancel ID',
  retry: 'task retry ID',
  diff: 'task diff ID',
  apply: 'task apply ID',
  undo: 'task undo ID',
  inspect: 'task show ID, or: agentctl agent show NAME',
  agents: 'list',
  tasks: 'task list',
  models: 'model list',
  tools: 'tool list',
  usage: 'model usage',
  cost: 'model usage',
  budget: 'model budget',
  config: 'doctor, and edit STATE/agentd.yaml',
  verify: 'audit verify',
  events: 'audit tail',
  tail: 'audit tail -f',
  log: 'audit tail, or: agentctl logs NAME',
  'task run': 'task create "what you want done" --wait',
  'task logs': 'task watch ID',
  'task wait': 'task watch ID',
  'task follow': 'task watch ID',
  'task result': 'task show ID',
  'task output': 'task show ID',
  'task new': 'task create "what you want done"',
  'task log': 'task watch ID',
  'task kill': 'task cancel ID',
  'task stop': 'task cancel ID',
  'task rm': 'prune --task ID',
  'task delete': 'prune --task ID',
  'agent add': 'agent create NAME',
  'agent new': 'agent init NAME',
  'agent rm': 'agent remove NAME',
  'agent delete': 'agent remove NAME',
  'agent edit': 'agent update NAME --file FILE',
  'agent run': 'task create "what you want done" --agent NAME --wait',
  'model use': 'model add --help',
  'audit log': 'audit tail',
};

/** Hints for a missing argument, where the command is often taken for another. */
export const MISSING_HINTS: Readonly<Record<string, string>> = {
  run: 'To have something done: agentctl task create "what you want done" --wait. To give a task that exists to an agent: agentctl run coder --task ID',
  stop: 'Stop an agent: agentctl stop NAME. Stop the runtime: agentctl down',
  pause: 'Pause an agent: agentctl pause NAME. Stop every agent now: agentctl halt',
  logs: 'Of an agent: agentctl logs NAME. Of a task: agentctl task watch ID. Of everything: agentctl audit tail -f',
};

/** Verbs of other programs in a group of commands, and ours. */
export const OTHER_VERBS: Readonly<Record<string, readonly string[]>> = {
  ls: ['list'],
  ps: ['list'],
  rm: ['remove', 'revoke', 'discard'],
  delete: ['remove', 'revoke', 'discard'],
  get: ['show'],
  inspect: ['show'],
  describe: ['show'],
  new: ['create', 'add'],
  start: ['create', 'resume'],
};
