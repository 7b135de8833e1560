// Kinds of things with examples of each. A question for a kind may mean one of the examples, but
// not the reverse.
export const KINDS = `
animal: dog cat horse bird fish turtle rabbit snake bear lion elephant cow pig wolf deer
appliance: fridge oven dishwasher washer microwave
author writer: novel book
bird: parrot eagle owl duck chicken penguin
body: arm leg knee ankle back head hand foot shoulder
book: novel memoir biography fantasy thriller
city: london paris tokyo york chicago boston seattle berlin rome barcelona
class: yoga pottery painting cooking dance writing
color colour: red blue green yellow purple pink orange black white brown
country: england france spain italy germany sweden canada mexico japan china india ireland
country: uk usa america brazil australia scotland greece turkey portugal thailand
continent: europe asia africa america australia
craft: pottery knitting sewing woodworking painting
database: postgres sqlite mysql redis
dance: ballet salsa tango contemporary ballroom
dessert: cake pie cookie icecream cupcake tart brownie chocolate pudding
device: phone laptop tablet camera watch headphones
drink beverage: coffee tea juice water beer wine soda smoothie
europe european: england france spain italy germany sweden ireland scotland greece portugal
exercise workout: running yoga swimming cycling weights gym
family: mother father mom dad brother sister son daughter wife husband aunt uncle cousin
festival holiday: christmas thanksgiving halloween easter diwali
food: pizza pasta salad soup rice chicken vegetables fruit bread cheese sushi sandwich
fruit: apple banana orange strawberry blueberry raspberry grape mango coconut
furniture: table chair couch sofa bed desk shelf
game: chess poker puzzle videogame playstation xbox nintendo
genre: fantasy mystery romance drama comedy thriller horror scifi
hobby: painting reading hiking cooking gardening photography gaming dancing writing pottery
hobby interest activity: swimming camping running cycling fishing knitting
illness disease: flu cold cancer diabetes asthma covid
instrument: guitar piano violin drums flute clarinet cello trumpet saxophone ukulele harp
job profession occupation career: teacher nurse doctor engineer lawyer banker chef artist
job profession occupation career: counselor mechanic designer developer musician photographer
jewelry: necklace ring bracelet earrings
language: english spanish french german italian chinese japanese python javascript rust
martial: karate judo taekwondo kickboxing boxing aikido jujitsu
meal: breakfast lunch dinner brunch supper
media: book movie show podcast
month: january february march april june july august september october november december
music: rock jazz classical pop hiphop country
nature: forest mountain lake river beach park waterfall
outdoor: hiking camping kayaking climbing fishing mountaineering surfing skiing
pet: dog cat puppy kitten turtle hamster rabbit parrot fish bird
place location: park museum beach cafe restaurant library church
plant: flower tree rose tulip cactus herb
relationship: single married divorced dating engaged
relative: aunt uncle cousin grandmother grandfather niece nephew
religion: christian church muslim mosque jewish temple buddhist
season: spring summer autumn fall winter
social: facebook instagram twitter youtube tiktok
sport: basketball football soccer tennis baseball golf swimming surfing hockey volleyball
state: california texas florida oregon washington colorado
subject: math science history art physics biology
tool: hammer drill saw git docker
toy: doll lego puzzle teddy
vegetable: carrot tomato potato spinach lettuce broccoli onion pepper
vehicle: car truck bike motorcycle bus van boat
weather: rain snow storm sunny wind
`;
