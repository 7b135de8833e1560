// Commands for programs of people in boxes.
import type { Command, Positional } from '../command.ts';

const BOX: Positional = { name: 'NAME|TASK' };

export const boxCommands: readonly Command[] = [
  {
    path: ['box', 'run'],
    positionals: [{ name: 'COMMAND', many: true }],
    options: [
      { name: 'here', help: 'let it work in the current directory, and change it at once' },
      {
        name: 'workspace',
        value: 'DIR',
        completes: 'directory',
        help: 'the same for another directory of your own',
      },
      {
        name: 'layer',
        help: 'there, keep its changes in a layer: agentctl task diff and apply',
      },
      {
        name: 'agent',
        value: 'A',
        completes: 'agent',
        help: 'agent to run as, whose rules apply (default: box)',
      },
      {
        name: 'name',
        value: 'N',
        help: 'its home is that of the last program of this name (default: of the directory)',
      },
      { name: 'budget', value: 'USD', kind: 'usd', help: 'maximum cost of its model calls: 2' },
      {
        name: 'model',
        value: 'M',
        help: 'model that answers, whatever name the program asks for',
      },
      {
        name: 'profile',
        value: 'NAME',
        help: 'kind of program: claude-code, codex, opencode, generic (default: by its name)',
      },
      {
        name: 'allow-host',
        value: 'H',
        many: true,
        help: 'host it may reach, whatever it has read: github.com, *.npmjs.org, db.test:5000; repeatable',
      },
      {
        name: 'max-time',
        value: 'D',
        kind: 'duration',
        help: 'maximum duration: 30s, 10m, 2h, 1d',
      },
    ],
    help: 'run a program of your own in a box, under a budget, and record what it did',
    details: [
      'Put -- before COMMAND, so that its options are its own: agentctl box run --here -- make test',
      'On a terminal the program has one too; otherwise input and output are pipes. The exit status is',
      'that of the program (128+N for signal N).',
      'Models are at OPENAI_BASE_URL and ANTHROPIC_BASE_URL in the box, which need no key; --model sets which.',
    ],
    load: async () => (await import('../commands/box-run.ts')).boxRun,
  },
  {
    path: ['box', 'list'],
    options: [
      { name: 'all', help: 'also those that have ended' },
      {
        name: 'limit',
        value: 'N',
        kind: 'count',
        most: 1000,
        help: 'maximum number of results (default 50)',
      },
    ],
    help: 'list programs in boxes, newest first: agent, directory, status, cost',
    load: async () => (await import('../commands/boxes.ts')).list,
  },
  {
    path: ['box', 'logs'],
    positionals: [BOX],
    options: [
      { name: 'lines', short: 'n', value: 'N', kind: 'count', help: 'only the last N events' },
    ],
    help: 'show what is recorded of a program: model calls, connections, marks, cost, its end',
    details: [
      'What it printed, and what was typed, goes to its terminal and is not kept.',
      'NAME is that of box run --name: a running program, or else the newest.',
    ],
    load: async () => (await import('../commands/boxes.ts')).logs,
  },
  {
    path: ['box', 'rm'],
    positionals: [BOX],
    options: [{ name: 'force', help: 'do not ask' }],
    help: 'cancel a program that is running; of an ended one, remove the home that it left',
    details: [
      'The home is that of all programs of the same agent in the same directory, or of the same --name:',
      'settings and sessions. The next such program gets an empty one, with the marks of the old one.',
      'Its directory, and what is recorded of it, stay.',
    ],
    load: async () => (await import('../commands/boxes.ts')).rm,
  },
  {
    path: ['exec'],
    positionals: [BOX, { name: 'COMMAND', many: true }],
    help: 'run a further command in the box of a program that is running',
    details: [
      'Put -- before COMMAND, so that its options are its own. It has the files, network and limits of',
      'the box, and ends with it. The exit status is that of the command (128+N for signal N).',
    ],
    load: async () => (await import('../commands/exec.ts')).exec,
  },
  {
    path: ['harness', 'list'],
    help: 'list coding agents of others that are known: which are installed, and what was tested',
    details: ['Example: agentctl harness list'],
    load: async () => (await import('../commands/harness.ts')).list,
  },
  {
    path: ['harness', 'test'],
    positionals: [{ name: 'NAME' }],
    options: [
      {
        name: 'model',
        value: 'M',
        completes: 'model',
        help: 'model that plays (default: rehearsal)',
      },
    ],
    help: 'try one in a box: it has to edit a file and run a command',
    details: ['Example: agentctl harness test claude-code'],
    load: async () => (await import('../commands/harness.ts')).test,
  },
];
