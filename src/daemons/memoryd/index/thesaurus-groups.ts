// Everyday English words that mean nearly the same: each word of a line may stand for each other.
// Short on purpose: words with many meanings are left out.
export const GROUPS = `
abroad overseas
accident crash collision
achieve accomplish attain
achievement accomplishment milestone success
advice suggestion recommendation tip guidance
afraid scared frightened fear terrified
aim goal objective target ambition aspiration dream
allergy allergic intolerant
amazing awesome incredible wonderful fantastic great
angry mad upset furious annoyed
answer reply respond response
anxiety anxious stress nervous worried worry
apartment flat condo
appointment meeting
approve approval accept permit authorize
argue argument quarrel dispute
assist help aid support
award prize trophy medal honor
baby infant newborn
bad awful terrible horrible
beach seaside shore coast ocean sea
beautiful gorgeous pretty stunning lovely
begin start launch commence kick
big large huge enormous
bike bicycle cycling
blog post article
book novel
boss manager supervisor
boyfriend girlfriend partner
breakup divorce separation
bug defect error fault issue
build construct create make
business company firm startup enterprise
buy purchase bought shop order
cafe coffee
camp camping campfire tent
cancel abandon drop
cancer tumor illness
car vehicle auto automobile truck
career job profession occupation work employment
celebrate celebration party festivity
challenge difficulty obstacle struggle hurdle setback
change alter modify modification transform transformation
charity donate donation fundraiser nonprofit volunteer
cheap inexpensive affordable
child kid son daughter
childhood young younger youth upbringing
choose pick select choice decide
city town hometown
class course lesson workshop training
classmate schoolmate
climb hike trek mountaineering
clothes clothing outfit wear apparel fashion dress
club group community association
coach trainer mentor
colleague coworker teammate workmate
college university school campus
comfort console soothe
compete competition contest tournament championship match
complete finish done conclude
computer laptop pc desktop
concert gig show performance festival
condition disease illness diagnosis
config configuration setting option
confident confidence
congratulate congrats congratulations
contact email call phone message
cook cooking bake recipe meal
country nation
couple pair two
crash fail failure outage incident
create make design craft produce
customer client buyer user
dad father
damage destroy ruin
danger risk hazard
dance dancing dancer
date day
dead die death pass
decision choice
degree diploma graduate graduation
delay postpone late
delete remove erase drop
delicious tasty yummy
deploy deployment release rollout ship
depressed depression sad unhappy down
describe tell explain
destress relax unwind relaxation
die death died funeral
difficult hard tough challenging
dinner supper lunch meal breakfast
disappointed disappointing
discover find discovery
doctor physician medical
document doc documentation file
drawing sketch draw painting
earn income salary pay wage
easy simple
eat food meal diet
education school study studies learning
effect impact influence consequence
encourage motivate inspire motivation inspiration
energetic energy
engaged engagement fiance
enjoy love like fun
enter participate join partake participation
environment nature climate
equipment gear tools
event occasion ceremony
excited thrilled stoked pumped excitement
exercise workout gym fitness train
exhibit exhibition museum gallery
expensive costly pricey
experience experienced
fall autumn
family relatives parents
famous popular celebrity
fast quick rapid speed
favorite favourite fave best prefer preferred
feeling emotion feel mood
finance financial money
fix repair mend solve resolve
flight fly plane airport airplane
flower flowers bouquet rose garden plant
food dish meal snack cuisine
friend buddy pal mate
friendship friends
game gaming play
garden gardening plant
gather collect
get receive obtain
gift present
give donate gave
go attend visit went
government politics political
grandfather grandpa granddad
grandmother grandma granny
grateful thankful appreciate gratitude
grow develop growth
guest visitor
guilty ashamed
happen occur
happy glad joy joyful delighted happiness
hate dislike
health healthy wellness
hike hiking trail trek
hobby pastime interest activity leisure
holiday vacation trip
home house apartment
hope wish
hospital clinic
hot warm
hurt injury injured pain
husband spouse partner wife married
idea concept plan
ill sick illness
image picture photo photograph pic
important significant essential crucial
improve better enhance improvement
individual person
inform notify tell
injury hurt injured wound
instrument guitar piano violin drum
invite invitation
job position role
journey trip travel adventure
kind type sort
kitchen cook
language speak
leave quit depart
letter note message mail
live reside residence dwell stay
local nearby
location place spot site
log logs logging
lonely alone
lose lost
love adore passion passionate
lucky fortunate
machine server host
main primary
map route
marriage married wedding marry wed
medicine medication drug treatment therapy
meditation meditate mindfulness yoga
meet met encounter
memory remember memories reminder
mistake error wrong
mom mother mum
money cash fund financial
month monthly
mountain mountains peak
move relocate moved moving
movie film cinema
music song musical band
name called named
near close nearby
necklace jewelry ring bracelet
need require requirement
neighbor neighborhood
new recent latest
nickname name
offer deal
office workplace
old former previous
opinion view think thought
outdoor outdoors outside nature
own have possess owner
paint painting painter art artwork canvas
parent mom dad mother father
participate attend join
password secret credential key token
peace calm peaceful serene tranquil
people person
perform performance
pet dog cat puppy kitten
plan intend intention planning
player athlete
poem poetry
police cop
port socket address
potential possible
practice train training
pregnant pregnancy expecting
price cost
pride proud
problem issue trouble
promote promotion
protect protection secure security
publish release
pull request merge
quit resign stop
reason why because cause
recipe cook bake dish
recommend suggest recommendation
reject rejection decline
relationship dating single partner
relative family
relax rest unwind
religion religious faith church
remind reminder
repository repo
research study investigate
restaurant cafe diner eat
retire retirement
rollback revert undo
romantic romance date
run running jog marathon race
school class education
script screenplay movie
sell sale sold
sewing knit craft
shelter homeless rescue
shoe shoes sneakers
shop store
show display exhibit
sibling brother sister
sing singing singer song
skill talent ability
sleep bed nap
slow latency delay
small tiny little
snow ski winter
speech talk presentation
spend spent
sport sports game
state status
stop quit halt
store shop boutique
story tale stories
stress pressure stressful
strong strength
student pupil
study exam learn
success succeed successful
suffer pain
summer vacation
surprise surprised unexpected
swim swimming pool
symbol represent mean
task todo ticket
teach teacher teaching
team squad group
technique method approach way strategy
technology tech
television tv show series
test tests testing
therapy therapist counseling counselor
timeout latency slow
toy doll
tradition traditional custom
travel trip journey visit
tree forest woods
trip travel vacation roadtrip journey tour
try attempt
understand understanding
uncle aunt cousin
upgrade update
upset sad
use utilize usage
version release
veteran military soldier army
video footage film
volunteer volunteering charity
vulnerability exploit
walk stroll hike
war military army
watch see view
water lake river
weather rain storm
weekend saturday sunday
weight diet
win victory champion first
wine beer drink
worry concern worried
write writing writer author wrote
year annual
yoga stretch
`;
