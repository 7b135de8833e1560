// Attacks that take effect later, when a person uses the workspace, or that bypass the box: git
// hooks and settings, repositories in other places, chains of commands, file tools.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { TOOL_BIN } from '../../src/daemons/sandboxd/adapters/host-paths.ts';
import type { Bind, Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import {
  makeWarden,
  type OpenedBox,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { makeBoxFiles } from '../../src/daemons/sandboxd/box-files.ts';
import { boxBinds } from '../../src/daemons/sandboxd/rules.ts';
import { shellTools } from '../../src/daemons/toold/tools/shell.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { silentLog } from '../../src/platform/log.ts';
import { buildBoxfs } from '../support/boxfs.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

const CONFIG = '[core]\n\trepositoryformatversion = 0\n';
const REPOSITORY = {
  '.git/': '',
  '.git/hooks/': '',
  '.git/info/': '',
  '.git/objects/': '',
  '.git/refs/': '',
  '.git/HEAD': 'ref: refs/heads/main\n',
  '.git/config': CONFIG,
};

for (const mode of MODES) {
  describe(`a workspace used by others later, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    beforeEach(() => fillWorkspace(warden, REPOSITORY));
    after(() => warden.stop());

    /** The paths of a box as sandboxd derives them from an agent's rules. */
    const binds = (): Bind[] => {
      const rules = { read: [], write: ['/workspace'], deny: [] };
      const system: Bind[] = [
        { kind: 'ro', src: '/usr', dst: '/usr' },
        ...['bin', 'lib', 'lib64'].map(
          (name): Bind => ({ kind: 'symlink', src: `usr/${name}`, dst: `/${name}` }),
        ),
        { kind: 'ro', src: join(warden.dir, 'bin'), dst: TOOL_BIN },
      ];
      const places = { system, workspace: warden.workspace, home: '/h', homeAt: '/home/coder' };
      return boxBinds(rules, { ...places, secrets: [] }, existsSync).binds;
    };
    const sh = async (script: string, guardsOff: Guard[] = [], more: Bind[] = []) => {
      const plan = warden.plan(['/bin/sh', '-c', script], { guardsOff });
      const client = await warden.client();
      try {
        return exited(
          await client.run({ ...plan, cwd: '/workspace', binds: [...binds(), ...more] }),
        );
      } finally {
        client.close();
      }
    };
    /** A bind of a directory outside the workspace. */
    const outside = (): Bind => ({ kind: 'ro', src: warden.outside, dst: warden.outside });
    const inHost = (name: string) => readFileSync(join(warden.workspace, name), 'utf8');

    it('B1 no git setting that runs a program can be added', async () => {
      for (const key of [
        'core.fsmonitor',
        'core.sshCommand',
        'core.pager',
        'core.hooksPath',
        'alias.st',
        'diff.x.textconv',
        'filter.x.smudge',
        'credential.helper',
      ]) {
        const script = `git config --file .git/config ${key} /workspace/evil`;
        assert.notEqual((await sh(script)).code, 0, key);
        assert.equal(inHost('.git/config'), CONFIG, key);
      }
      const control = await sh('git config --file .git/config core.pager evil', ['protect']);
      assert.equal(control.code, 0, JSON.stringify(control));
      assert.match(inHost('.git/config'), /evil/);
    });
    it('B1 no hook can be created, replaced or linked', async () => {
      const scripts = [
        'echo "#!/bin/sh" > .git/hooks/pre-commit',
        'cp /bin/true .git/hooks/post-checkout',
        'ln -s /workspace/evil .git/hooks/pre-push',
        'mv .git/hooks .git/old && mkdir .git/hooks',
        'mv .git old && mkdir -p .git/hooks && touch .git/hooks/pre-commit',
      ];
      for (const script of scripts) assert.notEqual((await sh(script)).code, 0, script);
      assert.ok(!existsSync(join(warden.workspace, '.git/hooks/pre-commit')));
      assert.equal((await sh(scripts[0]!, ['protect'])).code, 0, 'control');
      assert.ok(existsSync(join(warden.workspace, '.git/hooks/pre-commit')));
    });
    it('B1 git settings cannot be redirected, and git on the host keeps working', async () => {
      const lead = (name: string) =>
        `mkdir -p fake && git config --file fake/config core.fsmonitor "touch /tmp/x" && ` +
        `echo ../fake > .git/${name}`;
      for (const name of ['commondir', 'config.worktree']) {
        const outcome = await sh(lead(name));
        assert.notEqual(outcome.code, 0, name);
        assert.ok(!existsSync(join(warden.workspace, '.git', name)), 'nothing is left behind');
        assert.equal((await sh(lead(name), ['protect'])).code, 0, 'control');
        rmSync(join(warden.workspace, '.git', name));
      }
      // The stub of the missing file has the same meaning as its absence.
      const inBox = await sh('cat .git/commondir && git -c safe.directory="*" status --short');
      assert.match(inBox.stdout, /^\.\n/, JSON.stringify(inBox));
      assert.equal(inBox.code, 0, inBox.stderr);
    });
    it('B4 no attributes that name a driver can be added', async () => {
      const script = 'echo "* filter=evil" > .git/info/attributes';
      assert.notEqual((await sh(script)).code, 0);
      assert.equal((await sh(script, ['protect'])).code, 0, 'control');
    });
    it('B3 a repository outside the workspace is not reachable', async () => {
      const elsewhere = join(warden.outside, 'other.git');
      execFileSync('git', ['init', '--quiet', '--bare', elsewhere]);
      execFileSync('chmod', ['-R', 'a+rX', elsewhere]);
      fillWorkspace(warden, { '.git': `gitdir: ${elsewhere}\n` });
      const revParse = 'git -c safe.directory="*" rev-parse --git-dir';
      const outcome = await sh(revParse);
      assert.notEqual(outcome.code, 0);
      assert.match(outcome.stderr, /not a git repository/);
      const control = await sh(revParse, [], [outside()]);
      assert.equal(control.stdout, `${elsewhere}\n`, JSON.stringify(control));
    });
    it('B7 every command of a chain is in the same box', async () => {
      const attack = `${TOOL_BIN}/hostile unix-connect /x`;
      const chains = [
        `true; ${attack}`,
        `true && ${attack}`,
        `false || ${attack}`,
        `true | ${attack}`,
        `echo $(${attack})`,
        `(${attack}) & wait`,
        `env -i ${attack}`,
        `exec ${attack}`,
        `sh -c '${attack}'`,
        `setsid ${attack}`,
        `nohup ${attack}`,
      ];
      for (const chain of chains)
        assert.match((await sh(chain)).stdout, /failed socket EPERM/, chain);
      const control = await sh(`true; ${attack}`, ['seccomp']);
      assert.match(control.stdout, /failed connect ENOENT/, 'control: the path is looked up');
    });

    describe('file tools', () => {
      let link: WardenLink;
      let box: OpenedBox | undefined;
      before(() => {
        copyFileSync(buildBoxfs(), join(warden.dir, 'bin/boxfs'));
        chmodSync(join(warden.dir, 'bin/boxfs'), 0o755);
        link = makeWarden(warden.socket);
      });
      after(() => link.close());

      const withFiles = async <T>(
        paths: Bind[],
        work: (box: OpenedBox, files: ReturnType<typeof makeBoxFiles>) => Promise<T>,
      ): Promise<T> => {
        const { args: _a, env: _e, cwd: _c, ...plan } = warden.plan([]);
        box = await link.open({ ...plan, binds: paths });
        const opened = box;
        const files = makeBoxFiles({
          roots: [{ path: '/workspace', writable: true }],
          clock: systemClock(),
          log: silentLog,
          run: (args) => opened.exec({ args, env: {}, cwd: '/', limits: plan.limits }),
        });
        try {
          return await work(opened, files);
        } finally {
          files.close();
          await opened.close();
        }
      };
      const commandIn = async (opened: OpenedBox, script: string) => {
        const { limits } = warden.plan([]);
        const args = ['/bin/sh', '-c', script];
        const command = await opened.exec({ args, env: {}, cwd: '/workspace', limits });
        let text = '';
        for await (const { stream, bytes } of command.readOutput())
          if (stream === 'stdout') text += bytes.toString();
        return text;
      };
      const isRefused = (error: { code: string }) =>
        ['denied', 'not_found', 'conflict'].includes(error.code);

      it('A11 a link whose name has no slash is not followed', async () => {
        symlinkSync(join(warden.outside, 'secret'), join(warden.workspace, 'evil'));
        await withFiles([...binds(), outside()], async (opened, files) => {
          const read = files.perform({ op: 'read', path: '/workspace/evil' });
          await assert.rejects(read, isRefused);
          const write = files.perform({ op: 'write', path: '/workspace/evil', content: 'x' });
          await write.catch(() => undefined);
          const secret = readFileSync(join(warden.outside, 'secret'), 'utf8');
          assert.equal(secret, 'untouched\n');
          symlinkSync(join(warden.outside, 'secret'), join(warden.workspace, 'again'));
          assert.equal(
            await commandIn(opened, 'cat again'),
            'untouched\n',
            'control: it leads out',
          );
        });
      });
      it('A23 names that go up, contain a NUL or are invalid are rejected', async () => {
        await withFiles(binds(), async (_opened, files) => {
          for (const path of ['/workspace/../usr/bin/env', '/workspace/a\0b', '/usr/bin/env', 'x'])
            await assert.rejects(files.perform({ op: 'read', path }), path);
          await files.perform({ op: 'write', path: '/workspace/fine', content: 'x' });
        });
      });
      it('B9 file tools see and change exactly what a command in the box may', async () => {
        writeFileSync(join(warden.workspace, '.env'), 'KEY=1\n');
        const masked: Bind[] = [...binds(), { kind: 'mask', dst: '/workspace/.env' }];
        await withFiles(masked, async (opened, files) => {
          assert.equal(await commandIn(opened, 'cat .env'), '');
          const read = await files
            .perform({ op: 'read', path: '/workspace/.env' })
            .catch(() => null);
          assert.equal((read as { content?: string } | null)?.content ?? '', '');
          const config = { op: 'write', path: '/workspace/.git/config', content: 'x' } as const;
          await assert.rejects(files.perform(config));
          const hook = { ...config, path: '/workspace/.git/hooks/pre-commit' };
          await assert.rejects(files.perform(hook));
          assert.equal(inHost('.git/config'), CONFIG);
        });
        const open = binds().filter(({ kind }) => !kind.startsWith('protect'));
        await withFiles(open, async (_opened, files) => {
          const read = await files.perform({ op: 'read', path: '/workspace/.env' });
          assert.equal((read as { content: string }).content, 'KEY=1\n', 'control');
          const hook = { op: 'write', path: '/workspace/.git/hooks/x', content: 'x' } as const;
          await files.perform(hook);
        });
      });
    });
  });
}

describe('an agent that asks for no sandbox', () => {
  it('B8 no command argument switches the sandbox off', () => {
    const shell = shellTools({ tests: {} })[0]!;
    const fine = { command: 'true' };
    assert.ok(shell.input.safeParse(fine).success, 'control');
    for (const key of ['sandbox', 'dangerouslyDisableSandbox', 'level', 'network', 'uid', 'env'])
      assert.ok(!shell.input.safeParse({ ...fine, [key]: false }).success, key);
  });
});
