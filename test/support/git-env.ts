// The environment for git commands of a person, without the settings of this machine.
export const GIT_ENV = {
  PATH: process.env.PATH,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'p',
  GIT_AUTHOR_EMAIL: 'p@x',
  GIT_COMMITTER_NAME: 'p',
  GIT_COMMITTER_EMAIL: 'p@x',
};
