// The environment and the settings with which agentd runs git in repositories that it does not
// trust: git runs no program that they name, asks nothing, fetches nothing and signs nothing. Pure.
export type SafeGitSetting = readonly [key: string, value: string];

/** Override the repository; the settings of the host and of users are not read. */
export const SAFE_GIT_SETTINGS: readonly SafeGitSetting[] = [
  ['core.hookspath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['core.pager', 'cat'],
  ['core.editor', 'false'],
  ['sequence.editor', 'false'],
  ['core.askpass', 'false'],
  ['core.attributesfile', '/dev/null'],
  ['core.excludesfile', '/dev/null'],
  ['core.sshcommand', 'false'],
  ['core.gitproxy', ''],
  ['core.alternaterefscommand', 'false'],
  ['core.quotepath', 'false'],
  ['credential.helper', ''],
  ['protocol.allow', 'never'],
  ...['ext', 'file', 'ftp', 'ftps', 'git', 'http', 'https', 'ssh'].map(
    (name): SafeGitSetting => [`protocol.${name}.allow`, 'never'],
  ),
  ...['gpg.program', 'gpg.openpgp.program', 'gpg.x509.program', 'gpg.ssh.program'].map(
    (key): SafeGitSetting => [key, 'false'],
  ),
  ['gpg.ssh.defaultkeycommand', ''],
  ['commit.gpgsign', 'false'],
  ['tag.gpgsign', 'false'],
  ['log.showsignature', 'false'],
  ['diff.external', ''],
  ['diff.submodule', 'short'],
  ['diff.ignoresubmodules', 'all'],
  ['interactive.difffilter', ''],
  ['submodule.recurse', 'false'],
  ['status.submodulesummary', 'false'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['rerere.enabled', 'false'],
  ['color.ui', 'false'],
  ['column.ui', 'never'],
];

export const SAFE_GIT_ENV = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/nonexistent',
  XDG_CONFIG_HOME: '/nonexistent',
  LC_ALL: 'C.UTF-8',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'false',
  SSH_ASKPASS: 'false',
  GIT_SSH_COMMAND: 'false',
  GIT_EDITOR: 'false',
  GIT_PAGER: 'cat',
  // Not the name of any protocol, so all are disabled, whatever the settings are.
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_NO_LAZY_FETCH: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_LITERAL_PATHSPECS: '1',
} as const;

/** The environment with settings, which take precedence over those of the repository. */
export function buildSafeGitEnv(
  settings: readonly SafeGitSetting[],
  more: Readonly<Record<string, string>>,
): Record<string, string> {
  const named = settings.flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  const count = { GIT_CONFIG_COUNT: String(settings.length) };
  return { ...SAFE_GIT_ENV, ...more, ...count, ...Object.fromEntries(named) };
}
