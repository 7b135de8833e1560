// Commands for the runtime itself.
import type { RetentionKind } from '../../../wire/agentd.ts';
import type { Command, Option } from '../command.ts';

/** The contracts have this list too; they are not imported here because they load the schemas. */
const KINDS = [
  'tasks',
  'artifacts',
  'workspaces',
  'homes',
  'model_contexts',
  'memories',
] as const satisfies readonly RetentionKind[];

const upOptions: readonly Option[] = [
  { name: 'split', help: 'one process per daemon' },
  {
    name: 'foreground',
    help: 'stay and show the log; Ctrl-C stops the runtime, and a crash ends this command',
  },
  {
    name: 'restarts',
    value: 'N',
    kind: 'count',
    most: 100,
    help: 'after a crash, restart up to N times in ten minutes (default: 10)',
  },
  { name: 'no-restart', help: 'after a crash, stay down until the next agentctl up' },
  { name: 'port', value: 'N', kind: 'count', help: 'also listen on this port of 127.0.0.1' },
  {
    name: 'agents',
    value: 'DIR',
    completes: 'directory',
    help: 'agent manifests (default: the starter team)',
  },
  { name: 'config', value: 'FILE', completes: 'file', help: 'configuration (agentd.yaml)' },
];

export const runtimeCommands: readonly Command[] = [
  {
    path: ['up'],
    help: 'start the runtime; returns when it is ready and says which model responds',
    details: [
      'On a runtime that is up, --port opens the port; other options need agentctl restart.',
      'Example: agentctl up --port 7000',
    ],
    options: upOptions,
    load: async () => (await import('../commands/up.ts')).up,
  },
  {
    path: ['restart'],
    help: 'stop the runtime and start it again, with the same options unless others are given',
    details: ['Unfinished work resumes. Example: agentctl restart --split'],
    options: upOptions.filter(({ name }) => name !== 'foreground'),
    load: async () => (await import('../commands/restart.ts')).restart,
  },
  {
    path: ['reload'],
    help: 'take a changed configuration without a restart, as far as that is possible',
    details: [
      'Takes modeld.models, aliases, default_model and budgets, and says what waits for a restart.',
      'A file that is wrong changes nothing. Manifests, rules and declared tools need no reload:',
      'they are taken as they change. Example: agentctl reload',
    ],
    load: async () => (await import('../commands/reload.ts')).reload,
  },
  {
    path: ['down'],
    help: 'stop the runtime; unfinished work resumes at the next start',
    load: async () => (await import('../commands/down.ts')).down,
  },
  {
    path: ['status'],
    help: 'show daemons, tasks, pending approvals, spend today and problems',
    load: async () => (await import('../commands/status.ts')).status,
  },
  {
    path: ['doctor'],
    help: 'check this installation, and list what is not protected',
    load: async () => (await import('../commands/doctor.ts')).doctor,
  },
  {
    path: ['du'],
    options: [{ name: 'quick', help: 'leave out what the retention would free' }],
    help: 'show what takes how much on the disk, and what the retention would free',
    details: [
      'By kind of data and by agent; the sizes of files are those of the last measurement.',
      'Example: agentctl du --json',
    ],
    load: async () => (await import('../commands/du.ts')).du,
  },
  {
    path: ['prune'],
    options: [
      {
        name: 'older-than',
        value: 'D',
        kind: 'duration',
        help: 'prune what ended this long ago: 12h, 30d (default: the section retention)',
      },
      {
        name: 'kind',
        value: 'KIND',
        many: true,
        completes: KINDS,
        only: true,
        help: `only this kind of data; repeatable: ${KINDS.join(', ')}`,
      },
      {
        name: 'task',
        value: 'ID',
        many: true,
        completes: 'task',
        help: 'only this root task with its tree, whatever its age; repeatable',
      },
      { name: 'dry-run', help: 'show what would be pruned, and what is kept and why' },
      { name: 'approve', help: 'prune also what a rule asks a person about, in your name' },
      { name: 'status', help: 'show the last pass and when the next one starts' },
    ],
    help: 'remove old data now; the runtime does it by itself once an hour',
    details: [
      'What is pruned leaves its id: agentctl task show says when and why it was pruned.',
      'Hold a task with: agentctl task keep ID. Example: agentctl prune --older-than 30d --dry-run',
    ],
    load: async () => (await import('../commands/prune.ts')).prune,
  },
  {
    path: ['version'],
    help: 'show the version of agentctl and of the runtime',
    load: async () => (await import('../commands/version.ts')).version,
  },
  {
    path: ['completion'],
    positionals: [{ name: 'SHELL', completes: ['bash', 'zsh', 'fish'] }],
    help: 'print a completion script for bash, zsh or fish',
    details: [
      'bash: agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl',
      'zsh:  agentctl completion zsh > _agentctl, in a directory of your $fpath',
      'fish: agentctl completion fish > ~/.config/fish/completions/agentctl.fish',
    ],
    load: async () => (await import('../commands/completion.ts')).completion,
  },
  {
    path: ['halt'],
    options: [{ name: 'reason', value: 'TEXT', help: 'reason, for the record' }],
    help: 'stop every agent now; `touch STATE/HALT` does the same without the daemons',
    load: async () => (await import('../commands/halt.ts')).halt,
  },
  {
    path: ['unhalt'],
    help: 'lift the halt, so that agents resume',
    load: async () => (await import('../commands/halt.ts')).unhalt,
  },
];
